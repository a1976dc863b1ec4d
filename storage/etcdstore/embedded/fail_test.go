package embedded

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
)

func TestNewRefusesConfig(t *testing.T) {
	for _, c := range []Config{{}, {Dir: "x", QuotaBytes: -1}, {Dir: "x", Compaction: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// run runs a server on dir, which fails at once; on a slow machine a while later.
func run(t *testing.T, dir string) error {
	t.Helper()
	server, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return server.Run(ctx)
}

func TestRunOnFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file for a directory: %v", err)
	}
}

// makeDatabase puts content where etcd keeps its database.
func makeDatabase(t *testing.T, dir, content string) string {
	t.Helper()
	path := filepath.Join(dir, "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// etcd would end the process over this.
func TestRunOnBrokenDatabase(t *testing.T) {
	dir := t.TempDir()
	makeDatabase(t, dir, strings.Repeat("this is no database. ", 10_000))
	if err := run(t, dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a broken database: %v", err)
	}
}

func TestRunTwice(t *testing.T) {
	server, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if server.Client() != nil {
		t.Error("a client before the server runs")
	}
	if err := server.Run(ctx); err != nil {
		t.Errorf("run with a context that is done: %v", err)
	}
	if err := server.Run(t.Context()); err == nil {
		t.Error("run succeeded twice")
	}
}

// What etcd would end the process for ends Run, with etcd's words.
func TestFatal(t *testing.T) {
	server, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	select {
	case <-server.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	full := errors.New("no space left")
	log := server.log.zap()
	for _, end := range []func(string, ...zap.Field){log.Fatal, log.Panic} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			end("failed to save", zap.String("file", "wal"), zap.Error(full))
			t.Error("went on after a fatal error")
		}()
		<-ended
	}
	if err := <-done; !errors.Is(err, full) || !strings.Contains(err.Error(), "failed to save: no space left") {
		t.Errorf("run after a fatal error: %v", err)
	}
}

// TestElectionInReplay: a member that wants to be elected when etcd has just dropped entries that raft does not know to be
// applied goes on, and the log shows no error.
func TestElectionInReplay(t *testing.T) {
	var lines strings.Builder
	sink := newLogSink(funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{Verbosity: warnVerbosity}))
	const message = "error scanning unapplied entries [%d, %d): %v"
	sink.zap().Sugar().Panicf(message, 1, 250, raft.ErrCompacted)
	if len(sink.fatal) != 0 || lines.Len() != 0 {
		t.Errorf("%d fatal errors and the log %q, want none", len(sink.fatal), &lines)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sink.zap().Sugar().Panicf(message, 1, 250, raft.ErrUnavailable)
		t.Error("went on with entries that are lost")
	}()
	<-ended
	if len(sink.fatal) != 1 {
		t.Errorf("%d fatal errors of entries that are lost, want 1", len(sink.fatal))
	}
}

func TestLog(t *testing.T) {
	var lines []string
	logger := funcr.New(func(prefix, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: warnVerbosity})
	log := newLogSink(logger).zap().With(zap.Int("member", 1))
	log.Debug("debug")
	log.Info("info")
	log.Warn("slow", zap.Duration("took", time.Second), zap.Error(errors.New("cause")))
	log.Error("bad", zap.Error(errors.New("cause")), zap.String("file", "wal"))
	want := []string{
		`"level"=1 "msg"="etcd: slow" "member"=1 "took"="1s" "err"="cause"`,
		`"msg"="etcd: bad" "error"="cause" "member"=1 "file"="wal"`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	silent := newLogSink(logr.Logger{}).zap()
	if silent.Core().Enabled(zap.ErrorLevel) {
		t.Error("the zero logger is not silent")
	}
}

// What etcd logs of requests at its highest verbosity does not show what is in them.
func TestLogShowsNoValues(t *testing.T) {
	var lines strings.Builder
	logger := funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{Verbosity: 10})
	log := newLogSink(logger).zap()
	request := &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("/a"), Value: []byte("swordfish")}}
	log.Debug("apply", zap.Stringer("raftReq", request), zap.Any("any", request), zap.Reflect("reflect", request),
		zap.ByteString("bytes", []byte("swordfish")), zap.Binary("binary", []byte("swordfish")),
		zap.Strings("all", []string{"swordfish"}), zap.String("request content", request.String()),
		zap.Stringer("member", types.ID(0xabc)), zap.Int("count", 7))
	log.With(zap.Stringer("raftReq", request)).Info("apply")
	text := lines.String()
	if strings.Contains(text, "swordfish") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("swordfish"))) {
		t.Error(text)
	}
	for _, want := range []string{`"raftReq"="not shown"`, `"member"="abc"`, `"count"=7`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}
