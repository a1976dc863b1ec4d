package apiserver

import (
	"context"

	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stored counts the objects in storage by resource. It reads one record of each.
func (s *Server) Stored(ctx context.Context) (map[schema.GroupResource]int64, error) {
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
