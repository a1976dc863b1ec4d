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
	// execTimeout limits the run time of a plugin: it is long enough to look up a credential, and a
	// program that hangs does not block forever.
	execTimeout = time.Minute
	// execMost limits the output of a plugin, in bytes.
	execMost = 1 << 20
	// execEarly is the time before its expiry at which a credential is replaced.
	execEarly = 10 * time.Second
)

// execConfig is the entry of a kubeconfig for a program that returns a credential
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

// execCredential is the output of a plugin.
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

// plugin runs a program for a credential, and again when that expires or is refused. It is safe for
// concurrent use.
type plugin struct {
	config  execConfig
	info    string // an ExecCredential that describes the request to the program
	timeout time.Duration

	mu sync.Mutex // guards the following fields
	// known is the credential, nil before the first run. expires is zero if it does not expire.
	known   *credential
	expires time.Time
}

type credential struct {
	token       string
	certificate *tls.Certificate
}

// newPlugin returns the plugin for a cluster. The program receives the cluster only if the
// kubeconfig says so.
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
		return nil, errors.New("interactiveMode Always is not supported: exec plugins cannot prompt the user")
	}
	info, err := p.config.info(at)
	if err != nil {
		return nil, err
	}
	p.info = info
	return p, nil
}

// credential returns the current credential. It does not return refused.
func (p *plugin) credential(ctx context.Context, refused *credential) (*credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := !p.expires.IsZero() && time.Until(p.expires) < execEarly
	if p.known != nil && p.known != refused && !ended {
		return p.known, nil
	}
	output, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("exec plugin %s: %w", p.config.Command, err)
	}
	p.known, p.expires = nil, time.Time{}
	known := &credential{token: output.Status.Token}
	if output.Status.Certificate != "" || output.Status.Key != "" {
		pair, err := tls.X509KeyPair([]byte(output.Status.Certificate), []byte(output.Status.Key))
		if err != nil {
			return nil, fmt.Errorf("exec plugin %s: clientCertificateData and clientKeyData: %w", p.config.Command, err)
		}
		known.certificate = &pair
	}
	if output.Status.Expiration != nil {
		p.expires = *output.Status.Expiration
	}
	p.known = known
	return known, nil
}

// run runs the program. Its output may be secret and never gets into an error.
func (p *plugin) run(ctx context.Context) (*execCredential, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.config.Command, p.config.Args...)
	cmd.WaitDelay = time.Second // for a child of the program that holds its output open
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
	output := &execCredential{}
	switch err := json.Unmarshal(out.data, output); {
	case err != nil:
		return nil, errors.New("it did not write the JSON of an ExecCredential")
	case output.Kind != "ExecCredential" || output.APIVersion != p.config.APIVersion:
		return nil, fmt.Errorf("it did not write an ExecCredential of %s", p.config.APIVersion)
	case output.Status == nil || output.Status.Token == "" && output.Status.Certificate == "":
		return nil, errors.New("it wrote neither a token nor a certificate")
	}
	return output, nil
}

// bounded accepts a limited number of bytes and calls full when there are more.
type bounded struct {
	data    []byte // not a bytes.Buffer, whose ReadFrom would bypass Write
	full    func()
	dropped bool
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.dropped = b.dropped || len(b.data)+len(data) > execMost; b.dropped {
		b.full()
		return len(data), nil
	}
	b.data = append(b.data, data...)
	return len(data), nil
}

// pluginTransport sends requests with the credential of a plugin. If the server refuses it, the
// request is repeated once with a new credential.
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
		return answer, nil // the refusal is more informative
	}
	answer.Body.Close()
	t.base.CloseIdleConnections() // they may use the old certificate
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
