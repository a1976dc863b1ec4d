// Command ingress is an ingress controller: it serves HTTP and HTTPS, and passes requests to the pods of
// the services that Ingresses name, on the cluster of a kubeconfig. An IngressClass makes it responsible:
//
//	kubectl apply -f examples/ingress/class.yaml
//	go run ./examples/ingress --kubeconfig .planekit/admin.kubeconfig --address 192.0.2.1
//
// It must reach the addresses of pods, so it runs on a node or on the machine that the nodes share.
// Package router has the rules. Secrets of type kubernetes.io/tls are followed: a new certificate is used
// from the next connection on. What has no effect is said by Event objects about the Ingress.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"
	"syscall"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/go-logr/logr"
)

// options are the command line.
type options struct {
	kubeconfig, http, https, class string
	addresses                      []string
	// dial makes connections to endpoints; nil means those of a net.Dialer.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	log  logr.Logger
}

func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that leads to the cluster")
	flags.StringVar(&o.http, "http", ":80", "address to serve HTTP at; empty for none")
	flags.StringVar(&o.https, "https", ":443", "address to serve HTTPS at; empty for none")
	flags.StringVar(&o.class, "ingress-class", "", "serve only Ingresses of this class (default those of every class whose controller is "+controllerName+")")
	flags.StringSliceVar(&o.addresses, "address", nil, "address or name by which clients reach this program, for the status of Ingresses; may be repeated")
}

func main() {
	o := options{log: logr.FromSlogHandler(slog.Default().Handler())}
	o.add(pflag.CommandLine)
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, func(string, net.Addr) {}); err != nil {
		log.Fatal(err)
	}
}

// published returns the addresses as an Ingress has them in its status.
func (o *options) published() ([]networkingv1.IngressLoadBalancerIngress, error) {
	var out []networkingv1.IngressLoadBalancerIngress
	for _, text := range o.addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, networkingv1.IngressLoadBalancerIngress{IP: a.String()})
			continue
		}
		if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 {
			return nil, fmt.Errorf("--address %q: %s", text, strings.Join(problems, ", "))
		}
		out = append(out, networkingv1.IngressLoadBalancerIngress{Hostname: text})
	}
	return out, nil
}

// run serves until ctx is done, and then answers the requests in progress. It calls serving with the
// scheme and the address of each listener.
func run(ctx context.Context, o options, serving func(scheme string, at net.Addr)) error {
	published, err := o.published()
	if err != nil {
		return err
	}
	api, err := kubeconfig.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	defer api.Close()
	c, err := newController(api, o, published)
	if err != nil {
		return err
	}
	defer c.proxy.Close()
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.proxy.Certificate, NextProtos: []string{"h2", "http/1.1"}}
	for flag, address := range map[string]string{"http": o.http, "https": o.https} {
		if address == "" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		if flag == "https" {
			listener = tls.NewListener(listener, config)
		}
		listeners = append(listeners, listener)
		serving(flag, listener.Addr())
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return c.run(ctx) })
	for _, listener := range listeners {
		parts.Go(func() error { return c.proxy.Serve(ctx, listener) })
	}
	return parts.Wait()
}
