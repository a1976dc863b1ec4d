package encrypted

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/planekit/planekit/storage"
)

const (
	fileVersion = "apiserver.config.k8s.io/v1"
	fileKind    = "EncryptionConfiguration"
)

// file is the supported part of an EncryptionConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1).
type file struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resources  []struct {
		Resources []string   `json:"resources"`
		Providers []provider `json:"providers"`
	} `json:"resources"`
}

type provider struct {
	Identity *struct{} `json:"identity"`
	AESGCM   *struct {
		Keys []struct {
			Name   string `json:"name"`
			Secret string `json:"secret"`
		} `json:"keys"`
	} `json:"aesgcm"`
	// Known, so that the error names them instead of reporting unknown fields.
	AESCBC    any `json:"aescbc"`
	Secretbox any `json:"secretbox"`
	KMS       any `json:"kms"`
}

// All means every group, or every resource of a group; see [Parse].
const All = "*"

// Layout returns the key prefixes that planekit's API server uses under root, for example
// "/registry/core/secrets/", for use with [Parse].
func Layout(root storage.Key) func(group, resource string) storage.Key {
	return func(group, resource string) storage.Key {
		switch {
		case group == All:
			return root + "/"
		case group == "":
			group = "core"
		}
		prefix := root + "/" + storage.Key(group) + "/"
		if resource == All {
			return prefix
		}
		return prefix + storage.Key(resource) + "/"
	}
}

// Parse reads an EncryptionConfiguration in YAML or JSON. prefix returns the key prefix of a
// resource. Its group is empty for core and [All] for every group; its resource is All for every
// resource of the group.
func Parse(data []byte, prefix func(group, resource string) storage.Key) ([]Rule, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		// Do not wrap the parser's error: it may quote a line of the file, and with it a key.
		return nil, errors.New("encryption configuration: neither YAML nor JSON of an " + fileKind + ", or it has unknown or repeated fields")
	}
	if f.APIVersion != fileVersion || f.Kind != fileKind {
		return nil, fmt.Errorf("encryption configuration: %q %q, want kind %s of %s", f.APIVersion, f.Kind, fileKind, fileVersion)
	}
	if len(f.Resources) == 0 {
		return nil, errors.New("encryption configuration: no resources")
	}
	var rules []Rule
	for i, entry := range f.Resources {
		if len(entry.Resources) == 0 {
			return nil, fmt.Errorf("encryption configuration: resources[%d]: no resources", i)
		}
		ciphers, err := ciphers(entry.Providers)
		if err != nil {
			return nil, fmt.Errorf("encryption configuration: resources[%d]: %w", i, err)
		}
		for _, name := range entry.Resources {
			group, resource, err := split(name)
			if err != nil {
				return nil, fmt.Errorf("encryption configuration: resources[%d]: %w", i, err)
			}
			rules = append(rules, Rule{Prefix: prefix(group, resource), Ciphers: ciphers})
		}
	}
	// Check the rules here, where errors are about the file.
	if _, err := New(Config{Store: struct{ storage.Store }{}, Rules: rules}); err != nil {
		return nil, fmt.Errorf("encryption configuration: %w", err)
	}
	return rules, nil
}

// split parses names such as "deployments.apps", "secrets", "*.apps", "*." and "*.*".
func split(name string) (group, resource string, err error) {
	resource, group, _ = strings.Cut(name, ".")
	bad := resource == "" || resource != All && strings.Contains(resource, All) ||
		strings.ContainsAny(name, "/\x00") || strings.Contains(group, All) && (group != All || resource != All) ||
		name == All
	if bad {
		return "", "", fmt.Errorf("resource %q: want resource, resource.group, *.group, *. for the core group, or *.* for all", name)
	}
	return group, resource, nil
}

func ciphers(providers []provider) ([]Cipher, error) {
	var all []Cipher
	for i, p := range providers {
		kinds := 0
		for _, given := range []bool{p.Identity != nil, p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.KMS != nil} {
			if given {
				kinds++
			}
		}
		switch {
		case kinds != 1:
			return nil, fmt.Errorf("providers[%d]: want exactly one of aesgcm and identity", i)
		case p.Identity != nil:
			all = append(all, Cipher{})
		case p.AESGCM == nil:
			return nil, fmt.Errorf("providers[%d]: only aesgcm and identity are supported", i)
		case len(p.AESGCM.Keys) == 0:
			return nil, fmt.Errorf("providers[%d]: aesgcm without keys", i)
		default:
			for _, k := range p.AESGCM.Keys {
				key, err := base64.StdEncoding.DecodeString(k.Secret)
				if err != nil || len(key) == 0 {
					return nil, fmt.Errorf("providers[%d]: the secret of key %q is not base64 of 16, 24 or 32 bytes", i, k.Name)
				}
				all = append(all, Cipher{Name: k.Name, Key: key})
			}
		}
	}
	return all, nil
}
