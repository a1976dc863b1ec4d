package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/kubeflags"
	"github.com/spf13/pflag"
)

// options are the flags of kube-apiserver.
type options struct {
	kube *kubeflags.Options

	address, certDir, certFile, keyFile string
	port                                int
	issuer, signingKey                  string
	accountKeys                         []string
	privileged                          bool

	flags *pflag.FlagSet
}

// ignored are the flags of kube-apiserver that envtest or its users pass and that change nothing here, with
// the reason.
var ignored = map[string]string{
	"api-audiences":           "tokens are for --service-account-issuer",
	"etcd-servers":            "objects are in memory",
	"etcd-prefix":             "objects are in memory",
	"event-ttl":               "events stay",
	"feature-gates":           "there are none",
	"runtime-config":          "what is served is fixed",
	"service-node-port-range": "node ports are not chosen",
	"storage-backend":         "objects are in memory",
	"v":                       "there is one level of detail",
	"watch-cache":             "watches are served from a cache",
}

// expected are the ignored flags that envtest itself passes. They cause no warning.
var expected = []string{"etcd-servers"}

func newOptions(flags *pflag.FlagSet) *options {
	o := &options{flags: flags, kube: kubeflags.AddServer(flags)}
	flags.StringVar(&o.address, "bind-address", "0.0.0.0", "address to listen on")
	flags.IntVar(&o.port, "secure-port", 6443, "port to listen on; 0 picks a free one")
	flags.StringVar(&o.certDir, "cert-dir", "", "directory of the certificate apiserver.crt and its key apiserver.key; without them the server makes its own")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "certificate of the server, instead of that in --cert-dir")
	flags.StringVar(&o.keyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.StringVar(&o.issuer, "service-account-issuer", plane.DefaultIssuer, "name in which service account tokens are signed, and their audience")
	flags.StringVar(&o.signingKey, "service-account-signing-key-file", "", "ECDSA key that signs service account tokens (default: a new one)")
	flags.StringSliceVar(&o.accountKeys, "service-account-key-file", nil, "keys or certificates that verify service account tokens; one must be that of --service-account-signing-key-file")
	flags.BoolVar(&o.privileged, "allow-privileged", true, "must be true: the server allows privileged containers")
	for name, reason := range ignored {
		flags.String(name, "", "taken, and changes nothing: "+reason)
	}
	return o
}

func (o *options) check() error {
	switch {
	case !o.privileged:
		return errors.New("--allow-privileged=false is not supported")
	case (o.certFile == "") != (o.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	case o.port < 0 || o.port > 65535:
		return fmt.Errorf("--secure-port must be between 0 and 65535, not %d", o.port)
	}
	if _, err := netip.ParseAddr(o.address); err != nil {
		return fmt.Errorf("--bind-address must be an IP address, not %q", o.address)
	}
	// kube-apiserver takes these two: the first advertises nothing, the second needs no credentials.
	if flag := o.flags.Lookup("advertise-address"); flag.Changed {
		if ip, err := netip.ParseAddr(flag.Value.String()); err == nil && ip.IsLoopback() {
			_ = flag.Value.Set("")
		}
	}
	if modes, _ := o.flags.GetStringSlice("authorization-mode"); slices.Contains(modes, authorizers.AlwaysAllow) && !o.flags.Changed("anonymous-auth") {
		_ = o.flags.Set("anonymous-auth", "false")
	}
	return o.kube.Check()
}

// ineffective returns the flags that were given and change nothing, other than those that envtest passes.
func (o *options) ineffective() []string {
	var all []string
	o.flags.Visit(func(f *pflag.Flag) {
		if reason, ok := ignored[f.Name]; ok && !slices.Contains(expected, f.Name) {
			all = append(all, fmt.Sprintf("--%s: %s", f.Name, reason))
		}
	})
	return all
}

// certificate returns the certificate of the server; nil if it is to make one.
func (o *options) certificate() (*tls.Certificate, error) {
	cert, key := o.certFile, o.keyFile
	if cert == "" {
		cert, key = filepath.Join(o.certDir, "apiserver.crt"), filepath.Join(o.certDir, "apiserver.key")
		if _, err := os.Stat(cert); o.certDir == "" || errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the server: %w", err)
	}
	return &pair, nil
}

// accountKey returns the key that signs service account tokens; nil if there is no file.
func (o *options) accountKey() (*ecdsa.PrivateKey, error) {
	if o.signingKey == "" {
		return nil, nil
	}
	const flag = "--service-account-signing-key-file"
	data, err := os.ReadFile(o.signingKey)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s %s: no PEM block", flag, o.signingKey)
	}
	var parsed any
	if parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s %s: must hold an ECDSA key in PKCS #8 or SEC 1", flag, o.signingKey)
	}
	return key, o.checkAccountKeys(key)
}

// checkAccountKeys checks that the files of --service-account-key-file verify what key signs.
func (o *options) checkAccountKeys(key *ecdsa.PrivateKey) error {
	for _, file := range o.accountKeys {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--service-account-key-file: %w", err)
		}
		for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
			if key.PublicKey.Equal(publicKey(block)) {
				return nil
			}
		}
	}
	if len(o.accountKeys) == 0 {
		return nil
	}
	return errors.New("--service-account-key-file must have the public key of --service-account-signing-key-file")
}

// publicKey returns the public key in a block; nil if it has none.
func publicKey(block *pem.Block) crypto.PublicKey {
	if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
		return certificate.PublicKey
	}
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key.Public()
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer.Public()
		}
	}
	return nil
}
