package main

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// options are the command line.
type options struct {
	short  bool
	rounds int
	// most is the maximum number of pods in a server.
	most int
	// only holds the sections to measure; empty means all.
	only []string
	// sides are the servers to measure; empty means defaultSides.
	sides []kind
	// operations selects operations of the part requests; nil means all.
	operations *regexp.Regexp
	// bin is a directory with programs that need not be built; it may be empty.
	bin              string
	profile          string
	defaultAdmission bool
	floor            bool
}

// parse reads the command line.
func parse(arguments []string) (options, error) {
	var o options
	var only, sides, operations string
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.BoolVar(&o.short, "short", false, "a tenth of the load and one round, to see that everything works")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each figure is taken")
	flags.IntVar(&o.most, "most", 100_000, "how many pods to fill servers with at most, for memory and curve")
	flags.StringVar(&only, "only", "", "sections to measure, divided by commas, of "+strings.Join(sections(), ", "))
	flags.StringVar(&sides, "sides", strings.Join(names(defaultSides), ","), "servers to measure, divided by commas, of "+strings.Join(names(allSides), ", "))
	flags.StringVar(&operations, "operations", "", "measure only the requests that match this, such as 'create pod, 64 clients'")
	flags.StringVar(&o.bin, "bin", "", "directory with programs built before: those of apiserver, etcd and kube-apiserver in it are not built")
	flags.StringVar(&o.profile, "profile", "", "directory for CPU profiles of planekit's servers")
	flags.BoolVar(&o.defaultAdmission, "default-admission", false, "leave kube-apiserver the admission plugins that are on by default")
	flags.BoolVar(&o.floor, "floor", false, "be the server that only writes (used by this program itself)")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.short || o.rounds < 1 {
		o.rounds = 1
	}
	for _, name := range split(only) {
		if !slices.Contains(sections(), name) {
			return o, fmt.Errorf("-only: there is no section %q", name)
		}
		o.only = append(o.only, name)
	}
	for _, name := range split(sides) {
		i := slices.Index(names(allSides), name)
		if i < 0 {
			return o, fmt.Errorf("-sides: there is no server %q", name)
		}
		o.sides = append(o.sides, allSides[i])
	}
	var err error
	if o.operations, err = regexp.Compile(operations); err != nil {
		return o, fmt.Errorf("-operations: %w", err)
	}
	return o, nil
}

// split splits a list at its commas. The result of an empty list is empty.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
