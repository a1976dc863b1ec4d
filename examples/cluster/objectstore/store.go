// Package objectstore keeps the objects of a cluster: in memory, in an etcd that is part of the process and has its data
// in the data directory, or in an external etcd; encrypted, if a file with keys says so. It also saves and restores
// snapshots of the etcd.
//
//	options := objectstore.AddFlags(flags)
//	...
//	err := options.Check()
//	opened, err := objectstore.Open(ctx, objectstore.Config{Options: options, Dir: dir, Stack: s, Log: log})
//
// What Open starts runs on the stack and ends with it.
package objectstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are the values of the flags that say where objects are kept.
type Options struct {
	kind       string // etcd or memory
	external   external
	reserve    int64  // MiB
	encryption string // file of an EncryptionConfiguration
}

// external says where an etcd is that is not the cluster's own.
type external struct {
	servers       []string
	ca, cert, key string
}

// AddFlags adds the flags to a set.
func AddFlags(flags *pflag.FlagSet) *Options {
	o := &Options{}
	flags.StringVar(&o.kind, "storage", "etcd", "where objects are kept: etcd (embedded, in the data directory) or memory")
	o.external.addFlags(flags)
	flags.Int64Var(&o.reserve, "etcd-reserve", 128, "MiB of disk that the embedded etcd keeps for when the disk is full, at least 32")
	flags.StringVar(&o.encryption, "encryption-provider-config", "", "file with the keys that encrypt objects at rest, as kube-apiserver has it (aesgcm and identity)")
	return o
}

func (e *external) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&e.servers, "etcd-servers", nil, "URLs of an external etcd; the embedded one is off then")
	flags.StringVar(&e.ca, "etcd-cafile", "", "certificate authority of the external etcd")
	flags.StringVar(&e.cert, "etcd-certfile", "", "client certificate for the external etcd")
	flags.StringVar(&e.key, "etcd-keyfile", "", "key of the client certificate for the external etcd")
}

// Check reports values that are unknown or contradict each other.
func (o *Options) Check() error {
	kinds := []string{"etcd", "memory"}
	switch {
	case !slices.Contains(kinds, o.kind):
		return fmt.Errorf("--storage must be one of %v, not %q", kinds, o.kind)
	case o.External() && o.kind == "memory":
		return errors.New("--etcd-servers and --storage memory exclude each other")
	case (o.external.cert == "") != (o.external.key == ""):
		return errors.New("--etcd-certfile and --etcd-keyfile go together")
	}
	return nil
}

// External reports whether objects are kept in an external etcd, which servers may share.
func (o *Options) External() bool { return len(o.external.servers) > 0 }

// Config configures Open. Options and Stack must be set.
type Config struct {
	Options *Options
	// Dir has the data of the embedded etcd. It is not used with another store.
	Dir *datadir.Dir
	// Stack runs the embedded etcd, or the upkeep of an external one.
	Stack *stack.Stack
	// Log is silent when zero.
	Log logr.Logger
}

// Opened is a store that is ready, with the checks of its health.
type Opened struct {
	Store  storage.Store
	Checks []apiserver.Check
}

// Open opens the store.
func Open(ctx context.Context, c Config) (Opened, error) {
	// What is wrong with the file is found out before an etcd is started.
	rules, err := c.Options.encryptionRules()
	if err != nil {
		return Opened{}, err
	}
	opened, err := c.openPlain(ctx)
	if err != nil || rules == nil {
		return opened, err
	}
	opened.Store, err = encrypted.New(encrypted.Config{Store: opened.Store, Rules: rules})
	return opened, err
}

// encryptionRules reads the file that the options name; nil without one.
func (o *Options) encryptionRules() ([]encrypted.Rule, error) {
	if o.encryption == "" {
		return nil, nil
	}
	file, err := os.ReadFile(o.encryption)
	if err != nil {
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	rules, err := encrypted.Parse(file, encrypted.Layout("/registry"))
	if err != nil {
		return nil, fmt.Errorf("--encryption-provider-config: %s: %w", o.encryption, err)
	}
	return rules, nil
}

// openPlain opens the store that objects are encrypted for. It starts the embedded etcd where that is wanted.
func (c Config) openPlain(ctx context.Context) (Opened, error) {
	switch {
	case c.Options.External():
		return c.dial(ctx)
	case c.Options.kind == "memory":
		return Opened{Store: memstore.New()}, nil
	}
	server, err := embedded.New(embedded.Config{
		Dir:          c.Dir.Join("etcd"),
		ReserveBytes: c.Options.reserve << 20,
		Log:          c.Log.WithName("etcd"),
	})
	if err != nil {
		return Opened{}, err
	}
	c.Stack.Start("embedded etcd", server.Run)
	if err := c.Stack.Await(ctx, server.Ready()); err != nil {
		return Opened{}, err
	}
	if err := c.serveSnapshots(server); err != nil {
		return Opened{}, fmt.Errorf("snapshots: %w", err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		return Opened{}, err
	}
	return Opened{Store: store, Checks: []apiserver.Check{
		{Name: "etcd", Check: store.Healthy},
		{Name: "etcd-disk", Check: server.CheckSpace},
	}}, nil
}

// compactionInterval is how long an external etcd keeps history for watches to
// resume from; kube-apiserver's default. The embedded one compacts itself.
const compactionInterval = 5 * time.Minute

func (c Config) dial(ctx context.Context) (Opened, error) {
	client, err := c.Options.external.dial(ctx, c.Log)
	if err != nil {
		return Opened{}, err
	}
	c.Stack.OnStop("etcd client", client.Close)
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		return Opened{}, err
	}
	c.Stack.Start("etcd compaction", func(ctx context.Context) error {
		return store.CompactEvery(ctx, compactionInterval, func(err error) {
			c.Log.Error(err, "history is not compacted")
		})
	})
	return Opened{Store: store, Checks: []apiserver.Check{{Name: "etcd", Check: store.Healthy}}}, nil
}

// dial connects to the etcd.
func (e *external) dial(ctx context.Context, log logr.Logger) (*clientv3.Client, error) {
	config, err := e.tls(log)
	if err != nil {
		return nil, err
	}
	return etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: e.servers, TLS: config})
}

// tls reads the files that the options name; nil without any. Each new connection reads the client's
// certificate again: files that are torn or do not match leave the last one in use.
func (e *external) tls(log logr.Logger) (*tls.Config, error) {
	if e.ca == "" && e.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.ca != "" {
		pem, err := os.ReadFile(e.ca)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cafile: no certificate in %s", e.ca)
		}
	}
	if e.cert != "" {
		pair, err := certfile.Pair(e.cert, e.key)
		if err != nil {
			return nil, fmt.Errorf("--etcd-certfile, --etcd-keyfile: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if _, err := pair.Refresh(); err != nil {
				log.Error(err, "the client certificate for etcd cannot be read; the last one stays in use", "flag", "--etcd-certfile")
			}
			return pair.Current(), nil
		}
	}
	return config, nil
}
