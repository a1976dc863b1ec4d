package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

func (s *side) startStock(ctx context.Context, b *bench, _ bool) (err error) {
	arguments := s.files.APIServerArguments()
	if !b.defaultAdmission {
		arguments = append(arguments, peer.LeastAdmission()...)
	}
	s.server, err = peer.Launch(filepath.Join(s.work, "server.log"), b.program("kube-apiserver"), arguments...)
	if err != nil {
		return err
	}
	return s.files.AwaitReady(ctx)
}

// data returns the directory of planekit's own files.
func (s *side) data() string { return filepath.Join(s.work, "data") }

func (s *side) startPlanekit(ctx context.Context, b *bench, profiled bool) (err error) {
	arguments := []string{"--data-dir", s.data(), "--listen", "127.0.0.1:0", "--token-auth-file", s.files.Tokens}
	program := "apiserver"
	switch s.kind {
	case planekitMemory:
		arguments = append(arguments, "--storage", "memory")
	case planekitOutside:
		program = withoutEtcd
		arguments = append(arguments, "--etcd-servers", s.files.Etcd)
	}
	if profiled && b.profile != "" {
		arguments = append(arguments, "--cpu-profile", filepath.Join(b.profile, b.part+"-"+s.kind.name()+".prof"))
	}
	s.server, err = peer.Launch(filepath.Join(s.work, "server.log"), b.program(program), arguments...)
	if err != nil {
		return err
	}
	line, err := s.server.AwaitLine(ctx, "ready in ")
	if err != nil {
		return err
	}
	_, s.target.URL, _ = strings.Cut(line, ": ")
	return nil
}

// answers waits until url answers.
func answers(ctx context.Context, url string) error {
	web := http.Client{Timeout: time.Second}
	defer web.CloseIdleConnections()
	return peer.Poll(ctx, func() (bool, error) {
		answer, err := web.Get(url)
		if err != nil {
			return false, nil // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}
