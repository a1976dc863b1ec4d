package main

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

// configuration holds a configuration file and the settings in it for this program.
type configuration struct {
	*kubeletconfig.File
	kubeletconfig.Program
}

// readConfiguration reads a configuration file. Without one, all has its defaults.
func readConfiguration(file string) (configuration, error) {
	data := []byte("kind: " + kubeletconfig.Kind + "\napiVersion: " + kubeletconfig.APIVersion + "\n")
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return configuration{}, fmt.Errorf("--config: %w", err)
		}
	}
	decoded, err := kubeletconfig.Decode(data)
	if err != nil {
		return configuration{}, fmt.Errorf("--config %s: %w", file, err)
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	return configuration{decoded, decoded.Program(folder)}, err
}

// serves reports whether there is a server: it needs a certificate.
func (c *configuration) serves() bool { return c.EnableServer && c.CertFile != "" }

// warnings are the fields of the file that have no effect.
func (c *configuration) warnings() []string {
	parts := []kubeletconfig.Part{kubeletconfig.StaticPods}
	if c.CertFile != "" { // else nothing uses the other fields of the server
		parts = append(parts, kubeletconfig.TLS, kubeletconfig.Serving)
	}
	return c.Warnings(parts...)
}

// check refuses a server that would need an API server.
func (c *configuration) check() error {
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("tlsCertFile and tlsPrivateKeyFile go together")
	case !c.serves():
		return nil
	case c.TokenReview:
		return errors.New("authentication.webhook.enabled must be false: there is no API server to ask")
	case c.AuthorizationMode != "AlwaysAllow":
		return errors.New("authorization.mode must be AlwaysAllow: there is no API server to ask")
	case c.ClientCAFile == "" && !c.Anonymous:
		return errors.New("nobody could use the server: neither authentication.x509.clientCAFile nor authentication.anonymous.enabled is set")
	}
	return nil
}

// serve starts the kubelet's server. Its certificates follow their files.
func (c *configuration) serve(s *stack.Stack, k kubelet.Config, node *kubelet.Kubelet, runtime server.Runtime, listen func(network, address string) (net.Listener, error)) error {
	settings := &tls.Config{}
	c.ApplyTLS(settings)
	files, err := tlsfiles.New(tlsfiles.Config{CertFile: c.CertFile, KeyFile: c.KeyFile, ClientCAFile: c.ClientCAFile, TLS: settings, Log: k.Log})
	if err != nil {
		return err
	}
	clients, err := x509.New(x509.Config{CurrentRoots: files.Authorities})
	if err != nil {
		return err
	}
	listener, err := listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(int(c.Port))))
	if err != nil {
		return err
	}
	serve, err := server.New(server.Config{
		Listener: listener, TLS: files.TLS(), NodeName: k.NodeName, Pods: node.Pods(), Runtime: runtime, LogRoot: k.LogRoot, Log: k.Log,
		Configuration: func() any { return kubeletconfig.Describe(&k) },
		Authenticate: func(r *http.Request) (string, []string, error) {
			u, known, err := clients.Authenticate(r)
			switch {
			case err != nil:
				return "", nil, err
			case known:
				return u.Name, u.Groups, nil
			case c.Anonymous:
				return "system:anonymous", []string{"system:unauthenticated"}, nil
			}
			return "", nil, nil
		},
		Authorize: func(context.Context, string, []string, string, string) (bool, error) { return true, nil },
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.Start("certificates", files.Run)
	s.Start("server", serve.Run)
	return nil
}
