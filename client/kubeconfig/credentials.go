package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/planekit/planekit/client"
)

// Connect returns a client of the cluster that the current context of a file names. Where file comes
// from the environment, an empty one is an error that says so.
func Connect(file string) (*client.Client, error) {
	if file == "" {
		return nil, errors.New("kubeconfig: no file is named; is KUBECONFIG set?")
	}
	loaded, err := Load(file)
	if err != nil {
		return nil, err
	}
	config, _, err := loaded.Client("")
	if err != nil {
		return nil, err
	}
	return client.New(config)
}

// Client returns the client configuration of a context and its default namespace. An empty context
// means the current one.
func (c *Config) Client(context string) (client.Config, string, error) {
	if context == "" {
		context = c.CurrentContext
	}
	config, namespace, err := c.client(context)
	if err != nil {
		return client.Config{}, "", fmt.Errorf("kubeconfig: context %q: %w", context, err)
	}
	return config, namespace, nil
}

func (c *Config) client(context string) (client.Config, string, error) {
	var none client.Config
	if context == "" {
		return none, "", errors.New("no current context is set")
	}
	x, ok := c.Contexts[context]
	if !ok {
		return none, "", errors.New("does not exist")
	}
	cluster, ok := c.Clusters[x.Cluster]
	if !ok {
		return none, "", fmt.Errorf("cluster %q does not exist", x.Cluster)
	}
	var user User
	if x.User != "" {
		if user, ok = c.Users[x.User]; !ok {
			return none, "", fmt.Errorf("user %q does not exist", x.User)
		}
	}
	config := client.Config{Server: cluster.Server}
	tlsConfig, err := cluster.tls()
	if err != nil {
		return none, "", fmt.Errorf("cluster %q: %w", x.Cluster, err)
	}
	if err := user.apply(&config, tlsConfig, &cluster, c.Failed); err != nil {
		return none, "", fmt.Errorf("user %q: %w", x.User, err)
	}
	if config.Transport == nil {
		config.TLS = tlsConfig
	}
	namespace := x.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return config, namespace, nil
}

func (c *Cluster) tls() (*tls.Config, error) {
	if c.ProxyURL != "" {
		return nil, errors.New("proxy-url is not supported")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName, InsecureSkipVerify: c.InsecureSkipTLSVerify}
	ca, err := dataOr(c.CertificateAuthorityData, c.CertificateAuthority)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	if len(ca) == 0 {
		return t, nil
	}
	if c.InsecureSkipTLSVerify {
		return nil, errors.New("both certificate-authority and insecure-skip-tls-verify are set")
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate-authority: no certificate in PEM form")
	}
	return t, nil
}

func (u *User) apply(config *client.Config, t *tls.Config, at *Cluster, failed func(error)) error {
	switch {
	case u.Exec != nil:
		return u.applyPlugin(config, t, at)
	case u.AuthProvider != nil:
		return errors.New("credentials from an auth-provider are not supported")
	case u.Username != "" || u.Password != "":
		return errors.New("user name and password are not supported")
	case u.Impersonate != "":
		return errors.New("impersonation is not supported")
	}
	certificate, err := dataOr(u.ClientCertificateData, u.ClientCertificate)
	if err != nil {
		return fmt.Errorf("client-certificate: %w", err)
	}
	key, err := dataOr(u.ClientKeyData, u.ClientKey)
	if err != nil {
		return fmt.Errorf("client-key: %w", err)
	}
	switch {
	case len(certificate) == 0 && len(key) == 0:
	case len(certificate) > 0 && len(key) > 0 && len(u.ClientCertificateData) == 0 && len(u.ClientKeyData) == 0:
		files, err := openCertificateFiles(u.ClientCertificate, u.ClientKey, failed)
		if err != nil {
			return fmt.Errorf("client-certificate and client-key: %w", err)
		}
		// Certificates are for programs that look at them; connections use GetClientCertificate.
		t.Certificates = []tls.Certificate{*files.value.Current()}
		t.GetClientCertificate, config.Certificate = files.present, client.Follow(files.current)
	default:
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("client-certificate and client-key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	config.BearerToken = u.Token
	if u.TokenFile != "" {
		file, err := openTokenFile(u.TokenFile, failed)
		if err != nil {
			return fmt.Errorf("tokenFile: %w", err)
		}
		config.BearerToken, config.Tokens = file.value.Current(), file
	}
	return nil
}

// applyPlugin runs the plugin for the first time, so that one that does not work is found at once.
func (u *User) applyPlugin(config *client.Config, t *tls.Config, at *Cluster) error {
	p, err := newPlugin(u.Exec, at)
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if _, err := p.credential(context.Background(), nil); err != nil {
		return err
	}
	config.Transport = newPluginTransport(p, t)
	return nil
}

func dataOr(data []byte, path string) ([]byte, error) {
	if len(data) > 0 || path == "" {
		return data, nil
	}
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	return data, err
}
