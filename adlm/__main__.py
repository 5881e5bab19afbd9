"""`python -m adlm` and `torchrun -m adlm`."""

import sys

from adlm.cli import main

sys.exit(main())
