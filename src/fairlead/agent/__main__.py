"""`python -m fairlead.agent` and the zipapp begin here."""

import sys

from fairlead.agent.run import main

if __name__ == "__main__":
    sys.exit(main())
