package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// layout is where in storage the objects of resources lie.
type layout struct {
	prefix string // without the final slash
	below  func(schema.GroupResource) string
}

// root is the prefix of the keys of a resource's objects, with the final slash.
func (l layout) root(resource schema.GroupResource) (string, error) {
	path := byGroup(resource)
	if l.below != nil {
		path = l.below(resource)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if checkSegment(segment) != nil {
			return "", fmt.Errorf("it would be stored under %q, which is no path of named segments", path)
		}
	}
	return l.prefix + "/" + path + "/", nil
}

// held is the prefix of what the objects of a resource hold, with the final slash.
func (l layout) held(resource schema.GroupResource) string {
	return l.prefix + "/held/" + byGroup(resource) + "/"
}

func byGroup(resource schema.GroupResource) string {
	return cmp.Or(resource.Group, "core") + "/" + resource.Resource
}

// places are roots and whose they are.
type places map[string]string

func (p places) add(root, owner string) error {
	if other, taken := p[root]; taken && other != owner {
		return fmt.Errorf("%s and %s would both be stored under %s", min(owner, other), max(owner, other), root)
	}
	p[root] = owner
	return nil
}

// checkPlaces finds resources whose records could be taken for each other's:
// two that share a root, and a root inside another, where a segment of the one
// would be a namespace or a name of the other.
func (s *Server) checkPlaces() error {
	all := places{}
	for _, k := range s.kinds {
		if k.Answer != nil {
			continue
		}
		if err := all.add(k.root, schema.GroupResource{Group: k.stored.Group, Resource: k.stored.Plural}.String()); err != nil {
			return err
		}
		if k.Allocation == nil {
			continue
		}
		if err := all.add(k.held, "what "+k.gr.String()+" hold"); err != nil {
			return err
		}
	}
	outer := ""
	for _, root := range slices.Sorted(maps.Keys(all)) {
		if outer != "" && strings.HasPrefix(root, outer) {
			return fmt.Errorf("%s would be stored under %s, which is inside %s of %s", all[root], root, outer, all[outer])
		}
		outer = root
	}
	return nil
}

// CountStored counts the objects in storage by resource. It reads one record of each.
func (s *Server) CountStored(ctx context.Context) (map[schema.GroupResource]int64, error) {
	counts := map[schema.GroupResource]int64{}
	for _, k := range s.kinds {
		if k.Answer != nil {
			continue
		}
		page, err := s.config.Store.List(ctx, storage.Key(k.root), storage.ListOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		counts[k.gr] = int64(len(page.Records)) + page.Remaining
	}
	return counts, nil
}
