// Command apiserver is a Kubernetes-compatible API server and nothing else: the
// core resources over TLS, RBAC, and an etcd in the same process or outside.
//
//	apiserver [--data-dir DIR] [--listen 127.0.0.1:6443] [--storage etcd|memory] [--etcd-servers URL,URL]
//
// It is a starting point for programs that want Kubernetes' API without a cluster below
// it, and the program that the benchmarks compare with kube-apiserver. The kubeconfig of its
// administrator is admin.kubeconfig in the data directory.
//
// Built with -tags noembed,noprofile,grpcnotrace (make apiserver) the program has no
// etcd in it, only the client of one, no profiler, and nothing that makes the linker
// keep what is never called: 30 MB instead of 42.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/pki/servingcert"
)

// options are the command line.
type options struct {
	dataDir, listen, storage, etcdServers, tokenFile, cpuProfile string
	// main and named are certificates that are served beside the server's own, for which sans are further names.
	main  servingcert.Files
	named []servingcert.Files
	sans  []string
	// log is where the parts say what an operator acts on.
	log logr.Logger
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// command runs the program until ctx is done.
func command(ctx context.Context, arguments []string, stdout io.Writer) error {
	o := options{log: logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))}
	flags := flag.NewFlagSet("apiserver", flag.ContinueOnError)
	flags.StringVar(&o.dataDir, "data-dir", ".planekit-apiserver", "directory for everything the server keeps")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:6443", "address of the API server; port 0 picks a free one")
	flags.StringVar(&o.storage, "storage", "etcd", "where objects are kept: etcd (embedded, in the data directory) or memory")
	flags.StringVar(&o.etcdServers, "etcd-servers", "", "URLs of an external etcd, divided by commas; the embedded one is off then")
	flags.StringVar(&o.tokenFile, "token-auth-file", "", "CSV file of bearer tokens: token,user,uid,\"group1,group2\"")
	flags.StringVar(&o.cpuProfile, "cpu-profile", "", "file for a profile of the whole run, for go tool pprof")
	flags.StringVar(&o.main.Cert, "tls-cert-file", "", "certificate of the server with its chain; read again when it changes")
	flags.StringVar(&o.main.Key, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.Func("tls-sni-cert-key", "certificate and key for some names: certfile,keyfile or certfile,keyfile:pattern,...; may be repeated", func(text string) error {
		files, err := servingcert.Parse(text)
		o.named = append(o.named, files)
		return err
	})
	flags.Func("tls-san", "further name or address in the server's own certificate; may be repeated", func(text string) error {
		o.sans = append(o.sans, text)
		return servingcert.CheckName(text)
	})
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.storage != "etcd" && o.storage != "memory":
		return fmt.Errorf("--storage must be etcd or memory, not %q", o.storage)
	case o.storage == "memory" && o.etcdServers != "":
		return errors.New("--etcd-servers and --storage memory exclude each other")
	case (o.main.Cert == "") != (o.main.Key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	return o.profiled(func() error { return o.run(ctx, stdout) })
}

// endpoints are the members of the external etcd.
func (o *options) endpoints() []string {
	if o.etcdServers == "" {
		return nil
	}
	return strings.Split(o.etcdServers, ",")
}
