package standalone

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/server/tlsfiles"
	"github.com/planekit/planekit/plane/stack"
)

// settings are a configuration file, and what in it is not for the kubelet.
type settings struct {
	*kubeletconfig.File
	kubeletconfig.Program
}

// readSettings reads a configuration file. Without one, all has its defaults.
func readSettings(file string) (settings, error) {
	data := []byte("kind: " + kubeletconfig.Kind + "\napiVersion: " + kubeletconfig.APIVersion + "\n")
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return settings{}, err
		}
	}
	decoded, err := kubeletconfig.Decode(data)
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w", file, err)
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	return settings{decoded, decoded.Program(folder)}, err
}

// serves reports whether there is a server: it needs a certificate.
func (f *settings) serves() bool { return f.EnableServer && f.CertFile != "" }

// warnings are the fields of the file that have no effect.
func (f *settings) warnings() []string {
	parts := []kubeletconfig.Part{kubeletconfig.StaticPods, kubeletconfig.ReadOnly, kubeletconfig.Process}
	if f.CertFile != "" { // else nothing uses the other fields of the server
		parts = append(parts, kubeletconfig.TLS, kubeletconfig.Debugging, kubeletconfig.Serving)
	}
	return f.Warnings(parts...)
}

// check refuses a server that would need an API server.
func (f *settings) check() error {
	switch {
	case (f.CertFile == "") != (f.KeyFile == ""):
		return errors.New("tlsCertFile and tlsPrivateKeyFile go together")
	case !f.serves():
		return nil
	case f.TokenReview:
		return errors.New("authentication.webhook.enabled must be false: there is no API server to ask")
	case f.AuthorizationMode != "AlwaysAllow":
		return errors.New("authorization.mode must be AlwaysAllow: there is no API server to ask")
	case f.ClientCAFile == "" && !f.Anonymous:
		return errors.New("nobody could use the server: neither authentication.x509.clientCAFile nor authentication.anonymous.enabled is set")
	}
	return nil
}

// serve starts the kubelet's server. Its certificates follow their files.
func (f *settings) serve(s *stack.Stack, k kubelet.Config, node *kubelet.Kubelet, runtime server.Runtime, listen func(network, address string) (net.Listener, error)) error {
	config := &tls.Config{}
	f.ApplyTLS(config)
	files, err := tlsfiles.New(tlsfiles.Config{CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: f.ClientCAFile, TLS: config, Log: k.Log})
	if err != nil {
		return err
	}
	authenticate, err := f.authenticate(files)
	if err != nil {
		return err
	}
	listener, err := f.listen(listen, f.Port)
	if err != nil {
		return err
	}
	serve, err := server.New(server.Config{
		Listener: listener, TLS: files.TLS(), NodeName: k.NodeName, Pods: node.Pods(), Runtime: runtime, LogRoot: k.LogRoot, Log: k.Log,
		Configuration: func() any { return kubeletconfig.Describe(&k) }, Authenticate: authenticate,
		NoDebugging: !f.DebuggingHandlers, VolumeStats: node.VolumeStats,
		Authorize: func(context.Context, string, []string, string, string) (bool, error) { return true, nil },
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.Start("certificates", files.Run)
	s.Start("server", serve.Run)
	return nil
}

// listen opens the listener of a server with listen, or if that is nil with net.Listen.
func (f *settings) listen(listen func(network, address string) (net.Listener, error), port int32) (net.Listener, error) {
	if listen == nil {
		listen = net.Listen
	}
	return listen("tcp", net.JoinHostPort(f.Address, strconv.Itoa(int(port))))
}

// serveReadOnly starts the server without TLS and credentials.
func (f *settings) serveReadOnly(s *stack.Stack, k kubelet.Config, node *kubelet.Kubelet, runtime server.Runtime, listen func(network, address string) (net.Listener, error)) error {
	listener, err := f.listen(listen, f.ReadOnlyPort)
	if err != nil {
		return err
	}
	serve, err := server.New(server.Config{
		ReadOnly: true, Listener: listener, NodeName: k.NodeName, Pods: node.Pods(), Runtime: runtime, LogRoot: k.LogRoot, Log: k.Log,
		VolumeStats: node.VolumeStats,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.Start("read-only server", serve.Run)
	return nil
}

// authenticate returns a function that knows clients by their certificates, and others if the file says so.
func (f *settings) authenticate(files *tlsfiles.Files) (func(*http.Request) (string, []string, error), error) {
	clients, err := x509.New(x509.Config{CurrentRoots: files.Authorities})
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (string, []string, error) {
		u, known, err := clients.Authenticate(r)
		switch {
		case err != nil:
			return "", nil, err
		case known:
			return u.Name, u.Groups, nil
		case f.Anonymous:
			return "system:anonymous", []string{"system:unauthenticated"}, nil
		}
		return "", nil, nil
	}, nil
}
