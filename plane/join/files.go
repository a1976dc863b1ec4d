package join

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/internal/wholefile"
)

// errNoFiles means that there are no files of an earlier run.
var errNoFiles = errors.New("no files of an earlier run")

// files are the paths of a node's files.
type files struct {
	kubeconfig, ca, client, serving string
}

func newFiles(dir string) files {
	return files{
		kubeconfig: filepath.Join(dir, "kubeconfig"),
		ca:         filepath.Join(dir, "pki", "ca.crt"),
		client:     filepath.Join(dir, "pki", "kubelet-client-current.pem"),
		serving:    filepath.Join(dir, "pki", "kubelet-server-current.pem"),
	}
}

func (f files) writeAuthority(pem []byte) error {
	if err := wholefile.Folder(filepath.Dir(f.ca), 0o700); err != nil {
		return err
	}
	return wholefile.Write(f.ca, pem, 0o644)
}

func (f files) readAuthority() ([]byte, error) {
	data, err := os.ReadFile(f.ca)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoFiles
	}
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		err = fmt.Errorf("%s has no certificate", f.ca)
	}
	return data, err
}

// writeKubeconfig writes the kubeconfig of the node, unless it is there already.
func (j *Joiner) writeKubeconfig(authority []byte) error {
	const name = "planekit"
	config := &kubeconfig.Config{
		CurrentContext: name,
		Clusters:       map[string]kubeconfig.Cluster{name: {Server: j.config.Server, CertificateAuthorityData: authority}},
		Users:          map[string]kubeconfig.User{name: {ClientCertificate: j.files.client, ClientKey: j.files.client}},
		Contexts:       map[string]kubeconfig.Context{name: {Cluster: name, User: name}},
	}
	want, err := config.Marshal()
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(j.files.kubeconfig); err == nil && string(have) == string(want) {
		return nil
	}
	return wholefile.Write(j.files.kubeconfig, want, 0o600)
}

// A pair is a certificate with its key, parsed and as PEM.
type pair struct {
	tls *tls.Certificate
	pem []byte
}

// parsePair reads a certificate, with its chain, and its key from PEM.
func parsePair(data []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, err
	}
	return &pair{&parsed, data}, nil
}

// newPair joins an issued certificate and the key it was requested for.
func newPair(certificate []byte, key *ecdsa.PrivateKey) (*pair, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return parsePair(append(append([]byte{}, certificate...), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...))
}

// A certificate is one of the node's, in memory and in its file.
type certificate struct {
	file string

	mu   sync.Mutex // guards the following field
	pair *pair      // nil without
}

// read returns what the file has, without a change to the certificate in memory.
func (c *certificate) read() (*pair, error) {
	data, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoFiles
	}
	if err != nil {
		return nil, err
	}
	read, err := parsePair(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.file, err)
	}
	return read, nil
}

// replace writes the file and then changes the certificate in memory.
func (c *certificate) replace(p *pair) error {
	if err := wholefile.Folder(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	if err := wholefile.Write(c.file, p.pem, 0o600); err != nil {
		return err
	}
	c.set(p)
	return nil
}

func (c *certificate) set(p *pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair = p
}

func (c *certificate) get() *pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair
}

// current returns the certificate for TLS, nil without.
func (c *certificate) current() *tls.Certificate {
	if p := c.get(); p != nil {
		return p.tls
	}
	return nil
}
