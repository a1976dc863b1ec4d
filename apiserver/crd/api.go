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
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
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

const acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// pageSize is the number of definitions that are decoded at once.
const pageSize = 50

// decode decodes a definition. Its schemas are packed: a decoded schema is large.
func decode(data []byte) (*definition, error) {
	d := &definition{}
	if err := d.DecodePacked(data); err != nil {
		return nil, err
	}
	d.ManagedFields = nil
	return d, nil
}

// list returns all definitions and their revision.
func (a api) list(ctx context.Context) ([]*definition, string, error) {
	var all []*definition
	for next := ""; ; {
		var page struct {
			Metadata metav1.ListMeta
			Items    []json.RawMessage
		}
		if err := a.do(ctx, "GET", fmt.Sprintf("%s?limit=%d&continue=%s", definitionsPath, pageSize, url.QueryEscape(next)), nil, &page, acceptJSON); err != nil {
			return nil, "", err
		}
		for _, item := range page.Items {
			d, err := decode(item)
			if err != nil {
				return nil, "", err
			}
			all = append(all, d)
		}
		if next = page.Metadata.Continue; next == "" {
			return all, page.Metadata.ResourceVersion, nil
		}
	}
}

// get returns a definition in a revision that is not older than version.
func (a api) get(ctx context.Context, name, version string) (*definition, error) {
	var data json.RawMessage
	if err := a.do(ctx, "GET", definitionsPath+"/"+url.PathEscape(name)+"?resourceVersion="+url.QueryEscape(version), nil, &data, acceptJSON); err != nil {
		return nil, err
	}
	return decode(data)
}

// event is a change of a definition. It has the metadata alone, so that the server keeps no other copies of large
// definitions for its watches.
type event struct {
	metav1.ObjectMeta
	deleted bool
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
	response, err := a.send(ctx, "GET", definitionsPath+"?watch=true&resourceVersion="+url.QueryEscape(version), nil, acceptMetadata)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for decoder := json.NewDecoder(response.Body); ; {
		var e struct {
			Type   string
			Object metav1.PartialObjectMetadata
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
		deliver(event{e.Object.ObjectMeta, e.Type == "DELETED"})
	}
}

// updateStatus writes the status and the finalizers of a definition, unless it has changed meanwhile, and returns
// it as it is then.
func (a api) updateStatus(ctx context.Context, d *definition) (*definition, error) {
	names := map[string]any{ // a merge patch removes fields that are null
		"plural": d.Status.AcceptedNames.Plural, "kind": d.Status.AcceptedNames.Kind,
		"singular": orNull(d.Status.AcceptedNames.Singular), "listKind": orNull(d.Status.AcceptedNames.ListKind),
		"shortNames": d.Status.AcceptedNames.ShortNames, "categories": d.Status.AcceptedNames.Categories,
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": d.UID, "resourceVersion": d.ResourceVersion, "finalizers": d.Finalizers},
		"status":   map[string]any{"conditions": d.Status.Conditions, "acceptedNames": names, "storedVersions": d.Status.StoredVersions},
	}
	var written metav1.PartialObjectMetadata
	if err := a.do(ctx, "PATCH", definitionsPath+"/"+url.PathEscape(d.Name)+"/status", patch, &written, acceptMetadata); err != nil {
		return nil, err
	}
	out := d.DeepCopy()
	out.ObjectMeta = written.ObjectMeta
	out.ManagedFields = nil
	return out, nil
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
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
