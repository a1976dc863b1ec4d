package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/planekit/planekit/client/discovery"
)

// manifest names an object of a file. A list has items.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items []manifest `json:"items"`
}

// fromFiles returns the objects of the files. given is the namespace from the command line.
func (a *autoscaler) fromFiles(ctx context.Context, given string) ([]target, error) {
	var catalog *discovery.Catalog
	var targets []target
	for _, path := range a.files {
		manifests, err := a.read(path)
		if err != nil {
			return nil, err
		}
		if catalog == nil {
			if catalog, err = discovery.Fetch(ctx, a.server); err != nil {
				return nil, err
			}
		}
		for _, m := range manifests {
			t, err := a.find(catalog, m, path, given)
			if err != nil {
				return nil, err
			}
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("no objects passed to autoscale")
	}
	return targets, nil
}

// read returns the objects of a file. The file - is the standard input.
func (c *cli) read(path string) ([]manifest, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(c.In)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	manifests, err := decodeManifests(data)
	if err != nil {
		return nil, fmt.Errorf("error parsing %s: %w", path, err)
	}
	return manifests, nil
}

// decodeManifests decodes documents in YAML or JSON, and takes lists apart.
func decodeManifests(data []byte) ([]manifest, error) {
	var all []manifest
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var document runtime.RawExtension
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		text := bytes.TrimSpace(document.Raw)
		if len(text) == 0 || bytes.Equal(text, []byte("null")) {
			continue // comments alone
		}
		var m manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, err
		}
		objects := []manifest{m}
		if strings.HasSuffix(m.Kind, "List") && m.Items != nil {
			objects = m.Items
		}
		for _, o := range objects {
			switch {
			case o.Kind == "":
				return nil, words("Object 'Kind' is missing")
			case o.APIVersion == "":
				return nil, words("Object 'apiVersion' is missing")
			case o.Metadata.Name == "":
				return nil, errors.New("resource name may not be empty")
			}
		}
		all = append(all, objects...)
	}
}

// find returns the resource of an object of a file.
func (a *autoscaler) find(catalog *discovery.Catalog, m manifest, path, given string) (target, error) {
	name, namespace := m.Metadata.Name, m.Metadata.Namespace
	mapping, err := catalog.ForKind(m.GroupVersionKind())
	if err != nil {
		return target{}, fmt.Errorf("resource mapping not found for name: %q namespace: %q from %q: %w\nensure CRDs are installed first", name, namespace, path, err)
	}
	for _, part := range []string{name, namespace} {
		if problems := content.IsPathSegmentName(part); part != "" && len(problems) > 0 {
			return target{}, fmt.Errorf("%s: invalid resource name %q: %v", path, part, problems)
		}
	}
	switch {
	case namespace == "":
		namespace = a.namespace
	case given != "" && namespace != given && mapping.Namespaced:
		return target{}, words(fmt.Sprintf("the namespace from the provided object %q does not match the namespace %q. "+
			"You must pass '--namespace=%s' to perform this operation.", namespace, given, namespace))
	}
	return target{object: object{mapping, name}, namespace: namespace, exists: true}, nil
}
