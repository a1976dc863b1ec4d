package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/memstore"
)

// openStore opens what the options say objects are kept in, sealed if they say
// so.
func (c *cluster) openStore(ctx context.Context) (storage.Store, error) {
	// What is wrong with the file is found out before an etcd is started.
	rules, err := c.options.encryptionRules()
	if err != nil {
		return nil, err
	}
	store, err := c.openPlainStore(ctx)
	if err != nil || rules == nil {
		return store, err
	}
	return encrypted.New(encrypted.Config{Store: store, Rules: rules})
}

// encryptionRules reads the file that the options name; nil without one.
func (o *options) encryptionRules() ([]encrypted.Rule, error) {
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

// openPlainStore starts the embedded etcd where it is wanted.
func (c *cluster) openPlainStore(ctx context.Context) (storage.Store, error) {
	switch {
	case len(c.options.etcdServers) > 0:
		return c.dialEtcd(ctx)
	case c.options.storage == "memory":
		return memstore.New(), nil
	}
	server, err := embedded.New(embedded.Config{
		Dir:          filepath.Join(c.options.dataDir, "etcd"),
		ReserveBytes: c.options.etcdReserve << 20,
		Log:          c.log.WithName("etcd"),
	})
	if err != nil {
		return nil, err
	}
	c.stack.Start("embedded etcd", server.Run)
	if err := c.stack.Await(ctx, server.Ready()); err != nil {
		return nil, err
	}
	if err := c.serveSnapshots(server); err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		return nil, err
	}
	c.checks = append(c.checks,
		apiserver.Check{Name: "etcd", Check: store.Healthy},
		apiserver.Check{Name: "etcd-disk", Check: server.CheckSpace})
	return store, nil
}

// compactionInterval is how long an external etcd keeps history for watches to
// resume from; kube-apiserver's default. The embedded one compacts itself.
const compactionInterval = 5 * time.Minute

func (c *cluster) dialEtcd(ctx context.Context) (storage.Store, error) {
	config, err := c.options.etcdTLS()
	if err != nil {
		return nil, err
	}
	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: c.options.etcdServers, TLS: config})
	if err != nil {
		return nil, err
	}
	c.stack.OnStop("etcd client", client.Close)
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		return nil, err
	}
	c.checks = append(c.checks, apiserver.Check{Name: "etcd", Check: store.Healthy})
	c.stack.Start("etcd compaction", func(ctx context.Context) error {
		return store.CompactEvery(ctx, compactionInterval, func(err error) {
			c.log.Error(err, "history is not compacted")
		})
	})
	return store, nil
}

// etcdTLS reads the files that the options name; nil without any.
func (o *options) etcdTLS() (*tls.Config, error) {
	if o.etcdCA == "" && o.etcdCert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.etcdCA != "" {
		pem, err := os.ReadFile(o.etcdCA)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cafile: no certificate in %s", o.etcdCA)
		}
	}
	if o.etcdCert != "" {
		pair, err := tls.LoadX509KeyPair(o.etcdCert, o.etcdKey)
		if err != nil {
			return nil, fmt.Errorf("--etcd-certfile, --etcd-keyfile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
