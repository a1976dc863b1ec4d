package main

import (
	"flag"
	"testing"

	"github.com/planekit/planekit/internal/reference"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/cnitool.md")

// TestReference checks that docs/reference/cnitool.md has today's flags.
func TestReference(t *testing.T) {
	var o options
	flags := flag.NewFlagSet("cnitool", flag.ContinueOnError)
	o.add(flags)
	set := pflag.NewFlagSet("cnitool", pflag.ContinueOnError)
	set.AddGoFlagSet(flags)
	page := `# The flags of cnitool

This page is drawn from the program: ` + "`go test ./examples/cnitool -run TestReference -update`" + ` writes it again.
A flag may have one dash or two. An empty default means that the flag is not set.

    cnitool [flags] add|del|check NAMESPACE
    cnitool [flags] gc NAMESPACE...
    cnitool [flags] status

` + reference.Flags(reference.All(set)) + `
` + "`planekit-cni`" + ` has no flags: as any network plugin it has its configuration on the standard input, and the rest in
the environment (CNI_COMMAND, CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_ARGS, CNI_PATH).
`
	reference.Check(t, "../../docs/reference/cnitool.md", page, *update)
}
