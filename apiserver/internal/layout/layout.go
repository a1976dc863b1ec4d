// Package layout says under which keys of a store the objects of a resource lie, and finds resources
// whose records could be taken for each other's.
package layout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Layout is where in storage the objects of resources lie.
type Layout struct {
	// Prefix begins all keys, without a final slash.
	Prefix string
	// Below returns the path of a resource; nil means its group and its plural.
	Below func(schema.GroupResource) string
}

// Root is the prefix of the keys of a resource's objects, with the final slash.
func (l Layout) Root(resource schema.GroupResource) (string, error) {
	path := byGroup(resource)
	if l.Below != nil {
		path = l.Below(resource)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if requestline.CheckSegment(segment) != nil {
			return "", fmt.Errorf("it would be stored under %q, which is no path of named segments", path)
		}
	}
	return l.Prefix + "/" + path + "/", nil
}

// Held is the prefix of what the objects of a resource hold, with the final slash.
func (l Layout) Held(resource schema.GroupResource) string {
	return l.Prefix + "/held/" + byGroup(resource) + "/"
}

func byGroup(resource schema.GroupResource) string {
	return cmp.Or(resource.Group, "core") + "/" + resource.Resource
}

// Places are roots and whose they are.
type Places map[string]string

// Add adds a root. It fails if another owner has it.
func (p Places) Add(root, owner string) error {
	if other, taken := p[root]; taken && other != owner {
		return fmt.Errorf("%s and %s would both be stored under %s", min(owner, other), max(owner, other), root)
	}
	p[root] = owner
	return nil
}

// Check fails if one root is inside another: a segment of the one would be a namespace or a name of
// the other.
func (p Places) Check() error {
	outer := ""
	for _, root := range slices.Sorted(maps.Keys(p)) {
		if outer != "" && strings.HasPrefix(root, outer) {
			return fmt.Errorf("%s would be stored under %s, which is inside %s of %s", p[root], root, outer, p[outer])
		}
		outer = root
	}
	return nil
}
