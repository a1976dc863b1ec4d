package apiserver

import (
	"context"

	"github.com/planekit/planekit/apiserver/internal/layout"
	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// checkPlaces finds resources whose records could be taken for each other's.
func (s *Server) checkPlaces() error {
	all := layout.Places{}
	for _, k := range s.kinds {
		if k.Answer != nil {
			continue
		}
		if err := all.Add(k.root, schema.GroupResource{Group: k.stored.Group, Resource: k.stored.Plural}.String()); err != nil {
			return err
		}
		if k.Allocation == nil {
			continue
		}
		if err := all.Add(k.held, "what "+k.gr.String()+" hold"); err != nil {
			return err
		}
	}
	return all.Check()
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
