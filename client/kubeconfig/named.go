package kubeconfig

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// named is an element of a file's lists: {name: x, cluster: {...}}. The key of the value depends on
// its type.
type named[V any] struct {
	name  string
	value V
}

func keyOf(value any) string {
	switch value.(type) {
	case Cluster:
		return "cluster"
	case User:
		return "user"
	}
	return "context"
}

// MarshalJSON implements json.Marshaler.
func (n named[V]) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"name": n.name, keyOf(n.value): n.value})
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *named[V]) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if raw, ok := fields["name"]; ok {
		if err := json.Unmarshal(raw, &n.name); err != nil {
			return err
		}
	}
	if raw, ok := fields[keyOf(n.value)]; ok {
		return json.Unmarshal(raw, &n.value)
	}
	return nil
}

func collect[V any](into map[string]V, list []named[V]) {
	for _, n := range list {
		if _, taken := into[n.name]; !taken {
			into[n.name] = n.value
		}
	}
}

func spread[V any](from map[string]V) []named[V] {
	list := []named[V]{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		list = append(list, named[V]{name, from[name]})
	}
	return list
}

// anchor makes the paths in c absolute.
func (c *Config) anchor(folder string) {
	absolute := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
	for name, v := range c.Clusters {
		absolute(&v.CertificateAuthority)
		c.Clusters[name] = v
	}
	for name, v := range c.Users {
		absolute(&v.ClientCertificate)
		absolute(&v.ClientKey)
		absolute(&v.TokenFile)
		// A command without a separator is looked up by the operating system.
		if command, ok := v.Exec["command"].(string); ok && strings.ContainsRune(command, filepath.Separator) {
			absolute(&command)
			v.Exec["command"] = command
		}
		c.Users[name] = v
	}
}
