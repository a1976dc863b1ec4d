// Package kubeconfig reads and writes the files that tell kubectl how to reach a cluster and which
// credentials to use
// (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
//
//	c, err := kubeconfig.Connect(path)
//
// [Load] and [Config.Client] do it in steps, for another context or other options.
//
// The caller chooses the paths: the package does not read the environment or the home directory.
//
// Everything that a file names must exist. A missing file, context, cluster, user or certificate is
// an error that names it, never a client without credentials. Unsupported kinds of credentials are
// errors, too: auth-provider plugins, and passwords. Authorities are read once.
//
// A client follows the files of its certificate and key: new connections present the certificate of
// that moment, and a client notices within 5 seconds of its requests that its connections have another one; see
// [client.Config.Certificate]. If the files are missing, incomplete or do not match, the earlier
// certificate stays in use.
//
// A client reads a tokenFile again after 50 seconds, and at once after the server has refused its token. If
// the file is missing or empty, the earlier token stays in use.
//
// An exec plugin runs when a client is made, and again when its credential expires or is refused.
// It inherits the environment, must end within a minute, and cannot prompt the user. A command with
// a path separator is a path, relative to the folder of the file that names it. The operating
// system looks up any other command.
package kubeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/internal/wholefile"
	"sigs.k8s.io/yaml"
)

// Config is the content of one file, or of several merged.
type Config struct {
	Clusters       map[string]Cluster
	Users          map[string]User
	Contexts       map[string]Context
	CurrentContext string
	// Failed, if set, is called when the files of a client certificate or a token have changed and cannot be
	// used, once for each different error. It must be safe for concurrent use. It is not part of the file.
	Failed func(error) `json:"-"`
}

// Cluster describes a server and how to verify it. Data has precedence over a file for the same
// value.
type Cluster struct {
	Server                   string `json:"server"`
	TLSServerName            string `json:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool   `json:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthority     string `json:"certificate-authority,omitempty"`
	CertificateAuthorityData []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL                 string `json:"proxy-url,omitempty"`
	// Extensions holds data of other programs. The one named client.authentication.k8s.io/exec is
	// passed to exec plugins that request cluster information.
	Extensions []Extension `json:"extensions,omitempty"`
}

// Extension is a named object of any type.
type Extension struct {
	Name      string          `json:"name"`
	Extension json.RawMessage `json:"extension"`
}

// User holds the credentials of a user. Data has precedence over a file for the same value, and
// TokenFile over Token.
type User struct {
	ClientCertificate     string `json:"client-certificate,omitempty"`
	ClientCertificateData []byte `json:"client-certificate-data,omitempty"`
	ClientKey             string `json:"client-key,omitempty"`
	ClientKeyData         []byte `json:"client-key-data,omitempty"`
	Token                 string `json:"token,omitempty"`
	TokenFile             string `json:"tokenFile,omitempty"`

	// The following fields are kept when a file is written, but a client cannot be made with them.
	Username     string         `json:"username,omitempty"`
	Password     string         `json:"password,omitempty"`
	Impersonate  string         `json:"as,omitempty"`
	Exec         map[string]any `json:"exec,omitempty"`
	AuthProvider map[string]any `json:"auth-provider,omitempty"`
}

// Context is a user on a cluster, with its default namespace.
type Context struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace,omitempty"`
}

// file is the format on disk, in which maps are lists of named values.
type file struct {
	APIVersion     string           `json:"apiVersion"`
	Kind           string           `json:"kind"`
	Clusters       []named[Cluster] `json:"clusters"`
	Users          []named[User]    `json:"users"`
	Contexts       []named[Context] `json:"contexts"`
	CurrentContext string           `json:"current-context"`
}

// Load reads one file. Relative paths in it are relative to its folder.
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

// LoadAll reads and merges the files of a list such as that of KUBECONFIG. For each name, the first
// file that has it counts. As in kubectl, files that do not exist are skipped, but at least one
// must exist.
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

// Merge joins configs. If two of them have the same name, the first counts.
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

// Parse decodes the content of a file. It ignores unknown fields. As in kubectl, the first of two
// entries with the same name counts.
func Parse(data []byte) (*Config, error) {
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Kind != "" && f.Kind != "Config" || f.APIVersion != "" && f.APIVersion != "v1" {
		return nil, fmt.Errorf("the file is a %q %q, not a v1 Config", f.APIVersion, f.Kind)
	}
	c := newConfig()
	c.CurrentContext = f.CurrentContext
	collect(c.Clusters, f.Clusters)
	collect(c.Users, f.Users)
	collect(c.Contexts, f.Contexts)
	return c, nil
}

// Marshal encodes the content of a file.
func (c *Config) Marshal() ([]byte, error) {
	return yaml.Marshal(file{
		APIVersion: "v1", Kind: "Config", CurrentContext: c.CurrentContext,
		Clusters: spread(c.Clusters), Users: spread(c.Users), Contexts: spread(c.Contexts),
	})
}

// Write replaces the file at path atomically. Only its owner may read the new file.
func (c *Config) Write(path string) error {
	data, err := c.Marshal()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := wholefile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// MergeInto writes the configuration to the file at path, like Write. What others have put into the file stays; of
// entries with the same name, and of two current contexts, those of c win.
func (c *Config) MergeInto(path string) error {
	theirs, err := Load(path)
	switch {
	case err == nil:
		c = Merge(c, theirs)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return c.Write(path)
}
