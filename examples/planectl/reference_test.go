package main

import (
	"flag"
	"testing"

	"github.com/planekit/planekit/internal/reference"
)

var update = flag.Bool("update", false, "write docs/reference/planectl.md")

// TestReference checks that docs/reference/planectl.md has the flags of today's commands.
func TestReference(t *testing.T) {
	c := cli{warned: map[string]bool{}}
	root := c.root()
	page := `# The flags of planectl

This page is drawn from the program: ` + "`go test ./examples/planectl -run TestReference -update`" + ` writes it again.
An empty default means that the flag is not set.

## Every command

` + reference.Flags(reference.All(root.PersistentFlags())) + `
## The commands
` + reference.Commands(root)
	reference.Check(t, "../../docs/reference/planectl.md", page, *update)
}
