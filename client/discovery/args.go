package discovery

import (
	"errors"
	"fmt"
	"strings"
)

// Ref is a resource, or one object of it, as typed on a command line.
type Ref struct {
	// Type is the word for the resource, still to be resolved.
	Type string
	// Name is empty if all objects of the type are meant.
	Name string
}

var errMixed = errors.New("there is no need to specify a resource type as a separate argument when passing arguments " +
	"in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'")

// ParseArgs reads the arguments of a command in the forms of kubectl: TYPE,
// TYPE1,TYPE2, TYPE NAME..., TYPE1,TYPE2 NAME..., or TYPE/NAME....
func ParseArgs(args []string) ([]Ref, error) {
	if len(args) == 0 {
		return nil, errors.New("you must specify the type of resource")
	}
	slashed := 0
	for _, a := range args {
		if strings.Contains(a, "/") {
			slashed++
		}
	}
	switch slashed {
	case 0:
		return plain(strings.Split(args[0], ","), args[1:])
	case len(args):
		return slashes(args)
	}
	return nil, errMixed
}

func plain(types, names []string) ([]Ref, error) {
	var refs []Ref
	for _, t := range types {
		if t == "" {
			return nil, errors.New("a resource type is empty")
		}
		for _, n := range names {
			if n == "" {
				return nil, errors.New("resource name may not be empty")
			}
			refs = append(refs, Ref{t, n})
		}
		if len(names) == 0 {
			refs = append(refs, Ref{Type: t})
		}
	}
	return refs, nil
}

func slashes(args []string) ([]Ref, error) {
	var refs []Ref
	for _, a := range args {
		t, n, _ := strings.Cut(a, "/")
		if t == "" || n == "" || strings.Contains(n, "/") {
			return nil, fmt.Errorf("arguments in resource/name form must have a single resource and name: %q", a)
		}
		refs = append(refs, Ref{t, n})
	}
	return refs, nil
}
