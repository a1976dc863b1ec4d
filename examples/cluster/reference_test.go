package main

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/examples/cluster/objectstore"
	"github.com/planekit/planekit/internal/reference"
	"github.com/planekit/planekit/plane/kubeflags"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/cluster.md")

// section is a part of the page: the flags that these roles alone use, of one set.
type section struct {
	heading, text string
	roles         []string
	// set holds the flags; nil means those that no other set has.
	set *pflag.FlagSet
}

// sections returns the parts of the page in their order.
func sections() []section {
	set := func(add func(*pflag.FlagSet)) *pflag.FlagSet {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		add(flags)
		return flags
	}
	store := set(func(f *pflag.FlagSet) { objectstore.AddFlags(f) })
	server := set(func(f *pflag.FlagSet) { kubeflags.AddServer(f) })
	controllers := set(func(f *pflag.FlagSet) { kubeflags.Add(f) })
	serving := set(func(f *pflag.FlagSet) { kubeflags.AddServing(f) })
	every := []string{roleAll, roleServer, roleNode}
	plane := []string{roleAll, roleServer}
	return []section{
		{"Every role", "", every, nil},
		{"The certificates of every role", "Of the API server, or with the role node of the kubelet.", every, serving},
		{"The certificates of a control plane", "", plane, serving},
		{"A control plane", "Of the roles all and server.", plane, nil},
		{"A control plane: where objects are kept", "", plane, store},
		{"A control plane: the flags of kube-apiserver", "They have the names and meanings of Kubernetes.", plane, server},
		{"A control plane: the flags of kube-controller-manager", "They have the names and meanings of Kubernetes.", plane, controllers},
		{"Nodes", "Of the roles all and node.", []string{roleAll, roleNode}, nil},
		{"The role all", "", []string{roleAll}, nil},
		{"The role node", "", []string{roleNode}, nil},
	}
}

// TestReference checks that docs/reference/cluster.md has each flag of the program once, below the roles that use it.
func TestReference(t *testing.T) {
	root := command(how{})
	var b strings.Builder
	b.WriteString(`# The flags of cluster

This page is drawn from the program: ` + "`go test ./examples/cluster -run TestReference -update`" + ` writes it again.
` + "`--role`" + ` says what runs in the process: the whole cluster (all), a control plane (server) or a node of one (node).
A role refuses flags that it does not use. An empty default means that the flag is not set.
`)
	left := reference.All(root.Flags())
	parts := sections()
	for _, s := range parts {
		var flags []*pflag.Flag
		left = slices.DeleteFunc(left, func(f *pflag.Flag) bool {
			if !slices.Equal(rolesOf(f.Name), s.roles) || !belongs(f, s, parts) {
				return false
			}
			flags = append(flags, f)
			return true
		})
		if len(flags) == 0 {
			t.Errorf("no flag belongs to the section %q", s.heading)
			continue
		}
		b.WriteString("\n## " + s.heading + "\n\n")
		if s.text != "" {
			b.WriteString(s.text + "\n\n")
		}
		b.WriteString(reference.Flags(flags))
	}
	for _, f := range left {
		t.Errorf("--%s, of the roles %v, belongs to no section", f.Name, rolesOf(f.Name))
	}
	b.WriteString("\n## The commands\n" + reference.Commands(root))
	reference.Check(t, "../../docs/reference/cluster.md", b.String(), *update)
}

// rolesOf returns the roles that use a flag.
func rolesOf(flag string) []string {
	return slices.DeleteFunc([]string{roleAll, roleServer, roleNode}, func(role string) bool { return !uses(role, flag) })
}

// belongs reports whether a flag is in the set of s. A section without a set has those of no other section's set.
func belongs(f *pflag.Flag, s section, all []section) bool {
	if s.set != nil {
		return s.set.Lookup(f.Name) != nil
	}
	return !slices.ContainsFunc(all, func(other section) bool { return other.set != nil && other.set.Lookup(f.Name) != nil })
}
