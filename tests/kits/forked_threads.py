"""A module whose import starts a thread, as those of drivers do."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
