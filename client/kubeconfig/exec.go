package kubeconfig

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// execTimeout is how long a plugin may take: long enough to look up a
	// credential, and no reason for a program to hang for good.
	execTimeout = time.Minute
	// execMost is how much a plugin may say.
	execMost = 1 << 20
	// execEarly is how long before its end a credential is replaced.
	execEarly = 10 * time.Second
)

// execConfig is how a kubeconfig names a program that knows a credential
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
type execConfig struct {
	APIVersion string   `json:"apiVersion"`
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Env        []struct {
		Name, Value string
	} `json:"env"`
	InstallHint        string `json:"installHint"`
	InteractiveMode    string `json:"interactiveMode"`
	ProvideClusterInfo bool   `json:"provideClusterInfo"`
}

// execCredential is what a plugin says.
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     *struct {
		Expiration  *time.Time `json:"expirationTimestamp"`
		Token       string     `json:"token"`
		Certificate string     `json:"clientCertificateData"`
		Key         string     `json:"clientKeyData"`
	} `json:"status"`
}

// plugin runs a program for a credential, and again when that ends or is refused.
// It is safe for concurrent use.
type plugin struct {
	config  execConfig
	info    string // an ExecCredential that tells the program about the request
	timeout time.Duration

	mu sync.Mutex // guards what follows
	// known is the credential, nil before the first. expires is zero where it does
	// not.
	known   *credential
	expires time.Time
}

type credential struct {
	token       string
	certificate *tls.Certificate
}

// newPlugin returns the plugin for a cluster, of which it hears if it wants to.
func newPlugin(raw map[string]any, at *Cluster) (*plugin, error) {
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	p := &plugin{timeout: execTimeout}
	if err := json.Unmarshal(data, &p.config); err != nil {
		return nil, err
	}
	switch version := p.config.APIVersion; {
	case p.config.Command == "":
		return nil, errors.New("command must be set")
	case version != "client.authentication.k8s.io/v1" && version != "client.authentication.k8s.io/v1beta1":
		return nil, fmt.Errorf("apiVersion must be client.authentication.k8s.io/v1 or v1beta1, not %q", version)
	case p.config.InteractiveMode == "Always":
		return nil, errors.New("interactiveMode Always is not supported: nobody can be asked")
	}
	info, err := p.config.info(at)
	if err != nil {
		return nil, err
	}
	p.info = info
	return p, nil
}

// credential returns the one that is good now. Not that which was refused.
func (p *plugin) credential(ctx context.Context, refused *credential) (*credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := !p.expires.IsZero() && time.Until(p.expires) < execEarly
	if p.known != nil && p.known != refused && !ended {
		return p.known, nil
	}
	said, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("exec plugin %s: %w", p.config.Command, err)
	}
	p.known, p.expires = nil, time.Time{}
	known := &credential{token: said.Status.Token}
	if said.Status.Certificate != "" || said.Status.Key != "" {
		pair, err := tls.X509KeyPair([]byte(said.Status.Certificate), []byte(said.Status.Key))
		if err != nil {
			return nil, fmt.Errorf("exec plugin %s: clientCertificateData and clientKeyData: %w", p.config.Command, err)
		}
		known.certificate = &pair
	}
	if said.Status.Expiration != nil {
		p.expires = *said.Status.Expiration
	}
	p.known = known
	return known, nil
}

// run runs the program. What it says never gets into an error: it may be secret.
func (p *plugin) run(ctx context.Context) (*execCredential, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.config.Command, p.config.Args...)
	cmd.WaitDelay = time.Second // for whoever the program has left behind with its output
	cmd.Env = os.Environ()
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info) // the last one counts
	out := &bounded{full: cancel}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case out.dropped:
		return nil, fmt.Errorf("it wrote more than %d bytes", execMost)
	case ctx.Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("it did not end within %v", p.timeout)
	case errors.Is(err, exec.ErrNotFound) && p.config.InstallHint != "":
		return nil, fmt.Errorf("%w; %s", err, strings.TrimSpace(p.config.InstallHint))
	case err != nil:
		return nil, err
	}
	said := &execCredential{}
	switch err := json.Unmarshal(out.said, said); {
	case err != nil:
		return nil, errors.New("it did not write the JSON of an ExecCredential")
	case said.Kind != "ExecCredential" || said.APIVersion != p.config.APIVersion:
		return nil, fmt.Errorf("it did not write an ExecCredential of %s", p.config.APIVersion)
	case said.Status == nil || said.Status.Token == "" && said.Status.Certificate == "":
		return nil, errors.New("it wrote neither a token nor a certificate")
	}
	return said, nil
}

// bounded takes so much and no more, and calls full when there is more.
type bounded struct {
	said    []byte // no bytes.Buffer, which would read without asking Write
	full    func()
	dropped bool
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.dropped = b.dropped || len(b.said)+len(data) > execMost; b.dropped {
		b.full()
		return len(data), nil
	}
	b.said = append(b.said, data...)
	return len(data), nil
}

// pluginTransport sends requests with what a plugin knows, once more with another
// credential where the first is refused.
type pluginTransport struct {
	plugin *plugin
	base   *http.Transport
}

func newPluginTransport(p *plugin, t *tls.Config) *pluginTransport {
	t.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		known, err := p.credential(info.Context(), nil)
		if err != nil || known.certificate == nil {
			return &tls.Certificate{}, err
		}
		return known.certificate, nil
	}
	return &pluginTransport{p, &http.Transport{TLSClientConfig: t, ForceAttemptHTTP2: true}}
}

// RoundTrip implements http.RoundTripper.
func (t *pluginTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	known, err := t.plugin.credential(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := t.send(r, known)
	again := err == nil && answer.StatusCode == http.StatusUnauthorized && (r.Body == nil || r.GetBody != nil)
	if !again {
		return answer, err
	}
	other, err := t.plugin.credential(r.Context(), known)
	if err != nil {
		return answer, nil // the refusal says more
	}
	answer.Body.Close()
	t.base.CloseIdleConnections() // they may be of the old certificate
	second := r.Clone(r.Context())
	if r.GetBody != nil {
		if second.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.send(second, other)
}

func (t *pluginTransport) send(r *http.Request, known *credential) (*http.Response, error) {
	if known.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+known.token)
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections closes the connections that are not in use.
func (t *pluginTransport) CloseIdleConnections() { t.base.CloseIdleConnections() }
