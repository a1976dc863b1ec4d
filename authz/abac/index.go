package abac

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/authz"
)

// subject is the subject of a policy: a user, the members of a group, or a user who must be in a
// group.
type subject struct{ user, group string }

// grants holds all grants of one subject.
type grants struct {
	resources map[resource]access
	paths     map[string]access
	prefixes  map[string]access
	lengths   []int // of the prefixes, without duplicates
}

// resource is the resource part of a policy, patterns included.
type resource struct{ group, namespace, resource string }

// access is the kind of access: reading, or reading and writing.
type access int

const (
	nothing access = iota
	reading
	everything
)

func (p *Policy) access() access {
	if p.ReadOnly {
		return reading
	}
	return everything
}

func (a *Authorizer) index(p Policy) {
	s := subject{p.User, p.Group}
	if s == (subject{}) {
		return
	}
	g := a.subjects[s]
	if g == nil {
		g = &grants{resources: map[resource]access{}, paths: map[string]access{}, prefixes: map[string]access{}}
		a.subjects[s] = g
	}
	r := resource{p.APIGroup, p.Namespace, p.Resource}
	g.resources[r] = max(g.resources[r], p.access())
	g.paths[p.Path] = max(g.paths[p.Path], p.access())
	if strings.HasSuffix(p.Path, "*") {
		of := strings.TrimRight(p.Path, "*")
		g.prefixes[of] = max(g.prefixes[of], p.access())
		if !slices.Contains(g.lengths, len(of)) {
			g.lengths = append(g.lengths, len(of))
		}
	}
}

// allow reports whether g allows the request; g may be nil.
func (g *grants) allow(at *authz.Attributes) bool {
	if g == nil {
		return false
	}
	need := everything
	if at.Verb == "get" || at.Verb == "list" || at.Verb == "watch" {
		need = reading
	}
	if at.Resource == "" {
		return g.allowPath(at.Path, need)
	}
	// Each of the three fields is named by a policy or is "*".
	for pattern := range 8 {
		r := resource{at.Group, at.Namespace, at.Resource}
		if pattern&1 != 0 {
			r.group = "*"
		}
		if pattern&2 != 0 {
			r.namespace = "*"
		}
		if pattern&4 != 0 {
			r.resource = "*"
		}
		if g.resources[r] >= need {
			return true
		}
	}
	return false
}

func (g *grants) allowPath(path string, need access) bool {
	if g.paths[path] >= need {
		return true
	}
	for _, length := range g.lengths {
		if length <= len(path) && g.prefixes[path[:length]] >= need {
			return true
		}
	}
	return false
}
