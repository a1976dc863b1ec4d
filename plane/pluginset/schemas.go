package pluginset

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/mergeschema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// freshness is how long schemas are used before the server is asked whether there are newer ones, as in kube-apiserver.
const freshness = 5 * time.Second

// schemas reads how kinds merge from the OpenAPI documents of the server.
type schemas struct {
	api *client.Client
	mu  sync.Mutex
	// asked is when index was read: the URLs of documents, which change with these, by their paths.
	asked time.Time
	index map[string]string
	known map[schema.GroupVersion]document
}

// document holds what one URL says.
type document struct {
	url   string
	kinds map[schema.GroupVersionKind]typed.ParseableType
}

func newSchemas(api *client.Client) *schemas {
	return &schemas{api: api, known: map[schema.GroupVersion]document{}}
}

// Type implements policy.Schemas. Callers wait for one another while documents are read.
func (s *schemas) Type(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) > freshness {
		if err := s.refresh(ctx); err != nil {
			return typed.ParseableType{}, err
		}
	}
	gv, url := kind.GroupVersion(), s.index[base(kind)[1:]]
	doc := s.known[gv]
	if url == "" {
		delete(s.known, gv)
		return typed.ParseableType{}, fmt.Errorf("there are no schemas of %v", gv)
	}
	if doc.url != url {
		var parsed struct {
			Components struct {
				Schemas json.RawMessage `json:"schemas"`
			} `json:"components"`
		}
		if err := s.read(ctx, "/openapi/v3"+base(kind), &parsed); err != nil {
			return typed.ParseableType{}, err
		}
		kinds, err := mergeschema.Kinds(parsed.Components.Schemas)
		if err != nil {
			return typed.ParseableType{}, fmt.Errorf("schemas of %v: %w", gv, err)
		}
		doc = document{url, kinds}
		s.known[gv] = doc
	}
	t, ok := doc.kinds[kind]
	if !ok {
		return t, fmt.Errorf("there is no schema of %v", kind)
	}
	return t, nil
}

func (s *schemas) refresh(ctx context.Context) error {
	var list struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := s.read(ctx, "/openapi/v3", &list); err != nil {
		return err
	}
	s.index = map[string]string{}
	for path, one := range list.Paths {
		s.index[path] = one.URL
	}
	s.asked = time.Now()
	return nil
}

func (s *schemas) read(ctx context.Context, path string, into any) error {
	response, err := s.api.Do(ctx, client.Request{Path: path})
	if err != nil {
		return err
	}
	return json.Unmarshal(response.Body, into)
}
