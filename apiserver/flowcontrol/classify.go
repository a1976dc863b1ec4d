package flowcontrol

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Request is one request: the attributes that schemas match, and its width.
type Request struct {
	User   string
	Groups []string
	Verb   string
	// Resource is empty for requests that are not for resources.
	APIGroup, Resource, Subresource, Namespace string
	// APIVersion and Name are only shown, for requests for resources.
	APIVersion, Name string
	// Path is the path of the URL.
	Path string

	// Seats is the number of seats that the request takes while it is handled. Less than
	// one means one.
	Seats int
	// LingerSeats are kept for the time Linger after the request was handled, for
	// work that it causes later, such as telling watchers about a change.
	LingerSeats int
	Linger      time.Duration
}

// classifier finds the schema of a request. It is immutable.
type classifier struct {
	schemas  []*Schema // in the order in which they are asked
	catchAll int       // of schemas
}

// newClassifier sorts the schemas of a valid configuration.
func newClassifier(schemas []Schema) *classifier {
	c := &classifier{}
	for _, s := range schemas {
		c.schemas = append(c.schemas, &s)
	}
	slices.SortFunc(c.schemas, func(a, b *Schema) int {
		return cmp.Or(cmp.Compare(a.Precedence, b.Precedence), cmp.Compare(a.Name, b.Name))
	})
	for i := range c.schemas {
		if c.schemas[i].Name == CatchAllName {
			c.catchAll = i
		}
	}
	return c
}

// classify returns which of the schemas is the first that matches r, or catch-all.
func (c *classifier) classify(r *Request) int {
	for i := range c.schemas {
		if c.schemas[i].Matches(r) {
			return i
		}
	}
	return c.catchAll
}

// Flow returns the flow distinguisher of r within the schema.
func (s *Schema) Flow(r *Request) string {
	switch s.Distinguisher {
	case ByUser:
		return r.User
	case ByNamespace:
		return r.Namespace
	}
	return ""
}

// Matches reports whether r matches one of the rules.
func (s *Schema) Matches(r *Request) bool {
	for i := range s.Rules {
		if rule := &s.Rules[i]; rule.matchesSubject(r) && rule.matchesTarget(r) {
			return true
		}
	}
	return false
}

func (rule *Rule) matchesSubject(r *Request) bool {
	for _, name := range rule.Users {
		if name == All || name == r.User {
			return true
		}
	}
	for _, name := range rule.Groups {
		if name == All || slices.Contains(r.Groups, name) {
			return true
		}
	}
	for _, account := range rule.ServiceAccounts {
		if account.matches(r.User) {
			return true
		}
	}
	return false
}

// matches reports whether user is the account, or any of its namespace.
func (a ServiceAccount) matches(user string) bool {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return false
	}
	if rest, ok = strings.CutPrefix(rest, a.Namespace); !ok {
		return false
	}
	name, ok := strings.CutPrefix(rest, ":")
	return ok && (a.Name == All || a.Name == name)
}

func (rule *Rule) matchesTarget(r *Request) bool {
	if r.Resource == "" {
		for i := range rule.Paths {
			if rule.Paths[i].matches(r) {
				return true
			}
		}
		return false
	}
	for i := range rule.Resources {
		if rule.Resources[i].matches(r) {
			return true
		}
	}
	return false
}

func (rule *ResourceRule) matches(r *Request) bool {
	if !contains(rule.Verbs, r.Verb) || !contains(rule.APIGroups, r.APIGroup) || !rule.containsResource(r) {
		return false
	}
	if r.Namespace == "" {
		return rule.ClusterScope
	}
	return contains(rule.Namespaces, r.Namespace)
}

// containsResource is contains for RESOURCE or RESOURCE/SUBRESOURCE.
func (rule *ResourceRule) containsResource(r *Request) bool {
	if r.Subresource == "" || len(rule.Resources) == 1 && rule.Resources[0] == All {
		return contains(rule.Resources, r.Resource)
	}
	for _, one := range rule.Resources {
		if sub, ok := strings.CutPrefix(one, r.Resource); ok && len(sub) == len(r.Subresource)+1 && sub[0] == '/' && sub[1:] == r.Subresource {
			return true
		}
	}
	return false
}

func (rule *PathRule) matches(r *Request) bool {
	if !contains(rule.Verbs, r.Verb) {
		return false
	}
	for _, path := range rule.Paths {
		if path == All || path == r.Path {
			return true
		}
		dir := strings.TrimSuffix(strings.TrimSuffix(path, "*"), "/")
		if below, ok := strings.CutPrefix(r.Path, dir); ok && strings.HasPrefix(below, "/") {
			return true
		}
	}
	return false
}

// contains reports whether list is All alone, or contains x.
func contains(list []string, x string) bool {
	return len(list) == 1 && list[0] == All || slices.Contains(list, x)
}
