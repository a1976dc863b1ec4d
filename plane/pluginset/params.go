package pluginset

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/budget"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// params reads the parameters of policies from the API: each is as new as the server's cache.
type params struct {
	api *client.Client
	mu  sync.Mutex
	// known holds the resources of kinds. A kind that has gone since has no objects.
	known map[schema.GroupVersionKind]metav1.APIResource
}

func newParams(api *client.Client) *params {
	return &params{api: api, known: map[schema.GroupVersionKind]metav1.APIResource{}}
}

// resource returns the resource of a kind.
func (p *params) resource(ctx context.Context, kind schema.GroupVersionKind) (metav1.APIResource, error) {
	p.mu.Lock()
	known, ok := p.known[kind]
	p.mu.Unlock()
	if ok {
		return known, nil
	}
	var list metav1.APIResourceList
	if err := p.read(ctx, base(kind), nil, &list); err != nil {
		return known, err
	}
	for _, r := range list.APIResources {
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
			p.mu.Lock()
			p.known[kind] = r
			p.mu.Unlock()
			return r, nil
		}
	}
	return known, fmt.Errorf("there is no kind %v", kind)
}

// Namespaced implements policy.Params.
func (p *params) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	r, err := p.resource(ctx, kind)
	return r.Namespaced, err
}

// Get implements policy.Params.
func (p *params) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	path, err := p.path(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = p.read(ctx, path+"/"+url.PathEscape(name), nil, &object)
	return object, err
}

// List implements policy.Params.
func (p *params) List(ctx context.Context, kind schema.GroupVersionKind, namespace string, with labels.Selector) ([]map[string]any, error) {
	path, err := p.path(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := p.read(ctx, path, url.Values{"labelSelector": {with.String()}}, &list); err != nil {
		return nil, err
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	for _, item := range list.Items { // lists of Go types leave it out
		item["apiVersion"], item["kind"] = apiVersion, name
	}
	return list.Items, nil
}

func base(kind schema.GroupVersionKind) string {
	if kind.Group == "" {
		return "/api/" + url.PathEscape(kind.Version)
	}
	return "/apis/" + url.PathEscape(kind.Group) + "/" + url.PathEscape(kind.Version)
}

func (p *params) path(ctx context.Context, kind schema.GroupVersionKind, namespace string) (string, error) {
	r, err := p.resource(ctx, kind)
	if err != nil {
		return "", err
	}
	path := base(kind)
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + r.Name, nil
}

// maxParams bounds the JSON of the parameters of one binding: each request that the policy matches reads it.
const maxParams = 4 << 20

// read reads JSON. Numbers are int64 or float64. The budget of ctx pays for it.
func (p *params) read(ctx context.Context, path string, query url.Values, into any) error {
	stream, _, err := p.api.Stream(ctx, client.Request{Path: path, Query: query})
	if err != nil {
		return err
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, maxParams+1))
	if err != nil {
		return err
	}
	if len(data) > maxParams {
		return fmt.Errorf("%s has more than %d bytes of parameters", path, maxParams)
	}
	if err := budget.From(ctx).Work(readSteps * len(data)); err != nil {
		return err
	}
	return utiljson.Unmarshal(data, into)
}

// readSteps are the steps that a byte of JSON takes.
const readSteps = 5
