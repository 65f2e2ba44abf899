"""`python -m fairlead.see.agent` and the zipapp begin here."""

import sys

from fairlead.see.agent.run import main

if __name__ == "__main__":
    sys.exit(main())
