package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// Configuration holds the configurations of plugins by name. The zero value has none.
type Configuration struct {
	plugins []pluginConfiguration
	read    func(path string) ([]byte, error)
}

// pluginConfiguration is an element of AdmissionConfiguration.plugins.
type pluginConfiguration struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Configuration takes precedence over Path.
	Configuration json.RawMessage `json:"configuration"`
}

// versions lists the API versions of AdmissionConfiguration, which differ only in name.
var versions = []string{"apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"}

// Parse reads an AdmissionConfiguration in YAML or JSON
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration).
// data is the contents of the named file. Files that it names are relative to the file's folder.
// [New] reads them with read, such as os.ReadFile, when it creates an enabled plugin; a nil read
// makes them an error. Unknown fields and repeated names are errors.
func Parse(data []byte, file string, read func(path string) ([]byte, error)) (Configuration, error) {
	var parsed struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Plugins    []pluginConfiguration `json:"plugins"`
	}
	if err := yaml.UnmarshalStrict(data, &parsed); err != nil {
		return Configuration{}, fmt.Errorf("admission configuration %s: %w", file, err)
	}
	if parsed.Kind != "AdmissionConfiguration" || !slices.Contains(versions, parsed.APIVersion) {
		return Configuration{}, fmt.Errorf("admission configuration %s: it is %q of %q, want %q of %q",
			file, parsed.Kind, parsed.APIVersion, "AdmissionConfiguration", versions[0])
	}
	if read == nil {
		read = func(path string) ([]byte, error) { return nil, fmt.Errorf("read %s: %w", path, errors.ErrUnsupported) }
	}
	seen := map[string]bool{}
	for i := range parsed.Plugins {
		p := &parsed.Plugins[i]
		if p.Name == "" || seen[p.Name] {
			return Configuration{}, fmt.Errorf("admission configuration %s: plugins[%d].name %q is empty or there twice", file, i, p.Name)
		}
		seen[p.Name] = true
		if p.Path != "" && !filepath.IsAbs(p.Path) {
			p.Path = filepath.Join(filepath.Dir(file), p.Path)
		}
	}
	return Configuration{plugins: parsed.Plugins, read: read}, nil
}

// of returns the configuration of a plugin; nil if there is none.
func (c Configuration) of(name string) ([]byte, error) {
	for _, p := range c.plugins {
		switch {
		case p.Name != name:
		case len(p.Configuration) > 0 && string(p.Configuration) != "null":
			return p.Configuration, nil
		case p.Path != "":
			return c.read(p.Path)
		}
	}
	return nil, nil
}
