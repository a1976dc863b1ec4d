package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/pprof"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/storage/memstore"
)

const (
	// serveCommand makes this program the server that it measures.
	serveCommand = "serve"
	// serving is the line it writes when its kubeconfig can be used.
	serving = "serving"
)

// serve runs an API server over a store in memory, as apiservertest does, and
// controllers beside it, until ctx is done.
func serve(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	config := flags.String("kubeconfig", "", "where the kubeconfig is written")
	profile := flags.String("profile", "", "file for a processor profile of the whole run")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	token := rand.Text()
	server, err := newServer(listener, token)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	api, err := client.New(client.InProcess(server.Transport(&user.Info{Name: "controllers", Groups: []string{user.Masters}})))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	runners, err := newControllers(api)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return controllers.Run(ctx, append(runners, runner(server.Run), runner(func(ctx context.Context) error {
		select {
		case <-server.Ready():
		case <-ctx.Done():
			return nil
		}
		if err := writeConfig(*config, "https://"+listener.Addr().String(), token); err != nil {
			return err
		}
		fmt.Println(serving)
		<-ctx.Done()
		return nil
	}))...)
}

// runner is a function that is a [controllers.Runner].
type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// newServer returns a server whose administrator has token.
func newServer(listener net.Listener, token string) (*apiserver.Server, error) {
	certificate, err := peer.Certificate()
	if err != nil {
		return nil, err
	}
	tokens, err := tokenfile.New([]tokenfile.Entry{{Token: token, User: user.Info{Name: "admin", Groups: []string{user.Masters}}}})
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Config{
		Store: memstore.New(), Resources: kube.Resources(), Authenticator: tokens, Authorizer: authz.Func(mastersOnly),
		Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
	})
}

func mastersOnly(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.User.In(user.Masters) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

func writeConfig(path, url, token string) error {
	config := &kubeconfig.Config{
		CurrentContext: "rollout",
		Clusters:       map[string]kubeconfig.Cluster{"rollout": {Server: url, InsecureSkipTLSVerify: true}},
		Users:          map[string]kubeconfig.User{"rollout": {Token: token}},
		Contexts:       map[string]kubeconfig.Context{"rollout": {Cluster: "rollout", User: "rollout"}},
	}
	return config.Write(path)
}
