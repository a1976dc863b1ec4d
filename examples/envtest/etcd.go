package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/pflag"
)

// etcdFlags are the flags of etcd that change nothing, because there is nothing to store.
var etcdFlags = []string{
	"advertise-client-urls", "auto-compaction-mode", "auto-compaction-retention", "data-dir", "election-timeout", "heartbeat-interval",
	"initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "initial-cluster-token", "listen-metrics-urls",
	"listen-peer-urls", "log-level", "log-outputs", "logger", "max-request-bytes", "max-snapshots", "max-txn-ops", "max-wals", "name",
	"quota-backend-bytes", "snapshot-count", "wal-dir",
}

// runEtcd answers, at the addresses for clients, that etcd is healthy.
func runEtcd(ctx context.Context, arguments []string, stdout io.Writer) error {
	flags := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	clients := flags.StringSlice("listen-client-urls", []string{"http://localhost:2379"}, "URLs at which to answer health checks")
	for _, name := range etcdFlags {
		flags.String(name, "", "taken, and changes nothing")
	}
	for _, name := range []string{"unsafe-no-fsync", "force-new-cluster"} {
		flags.Bool(name, false, "taken, and changes nothing")
	}
	if err := parse(flags, arguments, stdout); err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(answerHealth), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, len(*clients))
	for _, text := range *clients {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			return errors.Join(fmt.Errorf("--listen-client-urls: %q is no URL of http", text), server.Close())
		}
		listener, err := net.Listen("tcp", u.Host)
		if err != nil {
			return errors.Join(fmt.Errorf("--listen-client-urls: %w", err), server.Close())
		}
		go func() { ended <- server.Serve(listener) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	return errors.Join(err, server.Close())
}

// answerHealth answers as etcd does, and refuses everything else: a client would take an empty answer for an
// empty store.
func answerHealth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/health", "/livez", "/readyz":
		_, _ = io.WriteString(w, `{"health":"true","reason":""}`)
	default:
		http.Error(w, `{"error":"this is not etcd: the API server beside it keeps its objects in memory"}`, http.StatusNotImplemented)
	}
}
