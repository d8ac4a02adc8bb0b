"""Pictures of layouts, copies and kernels: built as data, then rendered as terminal text, SVG or PNG.

`from cutegen.drawing.offsets import draw_layout`, and so on: what is not drawn is not imported.
"""
