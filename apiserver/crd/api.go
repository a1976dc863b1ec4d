package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/planekit/planekit/kinds/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// api asks the server for what Definitions needs of it.
type api struct{ transport http.RoundTripper }

func newAPI(t http.RoundTripper) api { return api{t} }

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// maxAnswer bounds an answer. Definitions are stored one by one, and a list of them has no bound but this.
const maxAnswer = 4 << 30

func (a api) send(ctx context.Context, method, path string, body any, accept string) (*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "planekit-apiextensions")
	response, err := a.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
}

// do sends a request and decodes the answer into into, unless that is nil.
func (a api) do(ctx context.Context, method, path string, body, into any, accept string) error {
	response, err := a.send(ctx, method, path, body, accept)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content := io.LimitReader(response.Body, maxAnswer)
	if into == nil {
		_, err = io.Copy(io.Discard, content)
		return err
	}
	return json.NewDecoder(content).Decode(into)
}

const acceptJSON = "application/json"

// list returns all definitions and their revision.
func (a api) list(ctx context.Context) ([]*definition, string, error) {
	var list apiextensions.CustomResourceDefinitionList
	if err := a.do(ctx, "GET", definitionsPath, nil, &list, acceptJSON); err != nil {
		return nil, "", err
	}
	all := make([]*definition, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, list.ResourceVersion, nil
}

// event is a change of a definition.
type event struct {
	definition *definition
	deleted    bool
}

// watch sends the changes after version until ctx is done. failed gets why it ended, nil if as watches do.
func (a api) watch(ctx context.Context, version string) (events <-chan event, failed <-chan error) {
	out, end := make(chan event), make(chan error, 1)
	go func() {
		end <- a.stream(ctx, version, func(e event) {
			select {
			case out <- e:
			case <-ctx.Done():
			}
		})
	}()
	return out, end
}

func (a api) stream(ctx context.Context, version string, deliver func(event)) error {
	response, err := a.send(ctx, "GET", definitionsPath+"?watch=true&resourceVersion="+url.QueryEscape(version), nil, acceptJSON)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for decoder := json.NewDecoder(response.Body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if e.Type == "ERROR" {
			return nil // too old: list again
		}
		d := &definition{}
		if err := json.Unmarshal(e.Object, d); err != nil {
			return err
		}
		deliver(event{d, e.Type == "DELETED"})
	}
}

// updateStatus replaces the status and the metadata of a definition.
func (a api) updateStatus(ctx context.Context, d *definition) (*definition, error) {
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	out := &definition{}
	return out, a.do(ctx, "PUT", definitionsPath+"/"+url.PathEscape(d.Name)+"/status", d, out, acceptJSON)
}

// collection is where objects are: in a namespace, or everywhere.
type collection struct{ group, version, plural, namespace string }

func (c collection) path() string {
	path := "/apis/" + c.group + "/" + c.version + "/"
	if c.namespace != "" {
		path += "namespaces/" + url.PathEscape(c.namespace) + "/"
	}
	return path + c.plural
}

// places returns where there are objects of a collection.
func (a api) places(ctx context.Context, c collection, namespaced bool) ([]collection, error) {
	places := map[string]collection{}
	next := ""
	for {
		var list metav1.PartialObjectMetadataList
		if err := a.do(ctx, "GET", c.path()+"?limit=1000&continue="+url.QueryEscape(next), nil, &list, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"); err != nil {
			return nil, err
		}
		for i := range list.Items {
			place := c
			if namespaced {
				place.namespace = list.Items[i].Namespace
			}
			places[place.namespace] = place
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	var all []collection
	for _, namespace := range slices.Sorted(maps.Keys(places)) {
		all = append(all, places[namespace])
	}
	return all, nil
}

// deleteAll deletes the objects of a collection.
func (a api) deleteAll(ctx context.Context, c collection) error {
	return a.do(ctx, "DELETE", c.path(), nil, nil, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
}
