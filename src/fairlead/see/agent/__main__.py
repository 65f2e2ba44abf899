"""`python -m fairlead.see.agent` and the zipapp begin here."""

import sys

from fairlead.see.agent.run import run_agent

if __name__ == "__main__":
    sys.exit(run_agent())
