// Package kubeconfig reads and writes the files that tell kubectl where a
// cluster is and who one is there
// (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
//
//	k, err := kubeconfig.Load(path)
//	config, namespace, err := k.Client("")
//	c, err := client.New(config)
//
// Which paths to read is the caller's business: nothing here looks at the
// environment or the home directory.
//
// Everything a file names must be there: a missing file, context, cluster, user
// or certificate is an error that names it, never a client without
// credentials. So are credentials of a kind that is not supported: auth-provider
// plugins, and passwords. Tokens and certificates are read once.
//
// An exec plugin is run when a client is made, and again when what it said ends or
// is refused; it inherits the environment, is given a minute, and cannot ask
// anybody anything. A command with a path separator is a path, relative to the
// folder of the file that names it; any other is looked up as the operating system
// does.
package kubeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Config is the content of one file, or of several merged.
type Config struct {
	Clusters       map[string]Cluster
	Users          map[string]User
	Contexts       map[string]Context
	CurrentContext string
}

// Cluster says where a server is and how it is recognized. Data goes before
// the file of the same thing.
type Cluster struct {
	Server                   string `json:"server"`
	TLSServerName            string `json:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool   `json:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthority     string `json:"certificate-authority,omitempty"`
	CertificateAuthorityData []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL                 string `json:"proxy-url,omitempty"`
	// Extensions are what other programs keep there. That of the name
	// client.authentication.k8s.io/exec is told to exec plugins which want to know
	// the cluster.
	Extensions []Extension `json:"extensions,omitempty"`
}

// Extension is a named object of any form.
type Extension struct {
	Name      string          `json:"name"`
	Extension json.RawMessage `json:"extension"`
}

// User says who one is. Data goes before the file of the same thing, TokenFile
// before Token.
type User struct {
	ClientCertificate     string `json:"client-certificate,omitempty"`
	ClientCertificateData []byte `json:"client-certificate-data,omitempty"`
	ClientKey             string `json:"client-key,omitempty"`
	ClientKeyData         []byte `json:"client-key-data,omitempty"`
	Token                 string `json:"token,omitempty"`
	TokenFile             string `json:"tokenFile,omitempty"`

	// These are kept, but a client cannot be made with them.
	Username     string         `json:"username,omitempty"`
	Password     string         `json:"password,omitempty"`
	Impersonate  string         `json:"as,omitempty"`
	Exec         map[string]any `json:"exec,omitempty"`
	AuthProvider map[string]any `json:"auth-provider,omitempty"`
}

// Context is a user at a cluster, with the namespace meant where none is said.
type Context struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace,omitempty"`
}

// file is the form on disk, where maps are lists of names with values.
type file struct {
	APIVersion     string           `json:"apiVersion"`
	Kind           string           `json:"kind"`
	Clusters       []named[Cluster] `json:"clusters"`
	Users          []named[User]    `json:"users"`
	Contexts       []named[Context] `json:"contexts"`
	CurrentContext string           `json:"current-context"`
}

// Load reads one file. Relative paths in it are taken from its folder.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.anchor(folder)
	return c, nil
}

// LoadAll reads and merges the files of a list such as KUBECONFIG holds, each
// name from the first file that has it. As kubectl does, it passes over files
// that do not exist, but one must.
func LoadAll(paths ...string) (*Config, error) {
	var found []*Config
	for _, p := range paths {
		if p == "" {
			continue
		}
		c, err := Load(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("kubeconfig: none of the files %q exists: %w", paths, fs.ErrNotExist)
	}
	return Merge(found...), nil
}

// Merge joins configs. What two of them have, the first decides.
func Merge(configs ...*Config) *Config {
	m := newConfig()
	for _, c := range configs {
		mergeInto(m.Clusters, c.Clusters)
		mergeInto(m.Users, c.Users)
		mergeInto(m.Contexts, c.Contexts)
		if m.CurrentContext == "" {
			m.CurrentContext = c.CurrentContext
		}
	}
	return m
}

func mergeInto[V any](into, from map[string]V) {
	for name, v := range from {
		if _, taken := into[name]; !taken {
			into[name] = v
		}
	}
}

func newConfig() *Config {
	return &Config{Clusters: map[string]Cluster{}, Users: map[string]User{}, Contexts: map[string]Context{}}
}

// Parse reads a file's content. Fields it does not know are ignored; a name
// given twice counts the first time, as in kubectl.
func Parse(data []byte) (*Config, error) {
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Kind != "" && f.Kind != "Config" || f.APIVersion != "" && f.APIVersion != "v1" {
		return nil, fmt.Errorf("is a %q %q, not a v1 Config", f.APIVersion, f.Kind)
	}
	c := newConfig()
	c.CurrentContext = f.CurrentContext
	collect(c.Clusters, f.Clusters)
	collect(c.Users, f.Users)
	collect(c.Contexts, f.Contexts)
	return c, nil
}

// Marshal writes the content of a file.
func (c *Config) Marshal() ([]byte, error) {
	return yaml.Marshal(file{
		APIVersion: "v1", Kind: "Config", CurrentContext: c.CurrentContext,
		Clusters: spread(c.Clusters), Users: spread(c.Users), Contexts: spread(c.Contexts),
	})
}

// Write replaces the file at path, which only its owner may then read. The
// file is never seen half written.
func (c *Config) Write(path string) error {
	data, err := c.Marshal()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
