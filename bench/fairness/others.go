package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	podsPath       = "/api/v1/namespaces/default/pods"
	configMapsPath = "/api/v1/namespaces/default/configmaps"
	tenantPath     = "/api/v1/namespaces/tenant/configmaps"
	leasesPath     = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
)

// caller is a client with a connection of its own.
type caller struct {
	url, token string
	web        *http.Client
}

func newCaller(url, token string) *caller {
	return &caller{url, token, &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 1},
	}}
}

// do sends a request and reads the whole answer.
func (c *caller) do(ctx context.Context, method, path, body string) (code int, err error) {
	code, _, err = c.ask(ctx, method, path, body)
	return code, err
}

func (c *caller) ask(ctx context.Context, method, path, body string) (code int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.web.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func configMap(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":"value"}}`, name)
}

// prepare allows every user everything and creates the objects of the requests.
func prepare(ctx context.Context, url string) error {
	c := newCaller(url, "admin-token")
	defer c.web.CloseIdleConnections()
	create := func(path, body string) error {
		// The service account is created a moment after its namespace.
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			code, answer, err := c.ask(ctx, http.MethodPost, path, body)
			switch {
			case err != nil:
				return err
			case code == http.StatusCreated || code == http.StatusConflict:
				return nil
			case code != http.StatusForbidden && code != http.StatusNotFound || time.Since(began) > 20*time.Second:
				return fmt.Errorf("POST %s: %d %s", path, code, answer)
			}
		}
	}
	for _, object := range [][2]string{
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"everybody"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:authenticated"}]}`},
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`},
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-node-lease"}}`},
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system"}}`},
		{"/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`},
	} {
		if err := create(object[0], object[1]); err != nil {
			return err
		}
	}
	for i := range 500 {
		if err := create(podsPath, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%d","labels":{"app":"x"}},
			"spec":{"automountServiceAccountToken":false,"nodeName":"none","containers":[{"name":"main","image":"nginx:1"}]}}`, i)); err != nil {
			return err
		}
	}
	for _, s := range senders {
		if s.lease == "" {
			continue
		}
		for i := range s.clients {
			lease, _ := json.Marshal(map[string]any{
				"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
				"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", s.lease, i)}, "spec": map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 40},
			})
			if err := create(fmt.Sprintf(leasesPath, s.namespace), string(lease)); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodes is the number of nodes that renew their leases.
const nodes = 20

// sender is one kind of well-behaved client: a number of clients that send at fixed times.
type sender struct {
	name, token      string
	clients          int
	every            time.Duration
	namespace, lease string // of leases
}

var senders = []sender{
	{"node leases", "node-token", nodes, 500 * time.Millisecond, "kube-node-lease", "node"},
	{"leader election", "manager-token", 2, 200 * time.Millisecond, "kube-system", "leader"},
	{"another tenant", "tenant-token", 5, 250 * time.Millisecond, "", ""},
}

// others sends the requests of well-behaved clients for a time, and returns the latencies of each
// kind.
func others(ctx context.Context, url string, duration time.Duration) ([]latencies, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := make([]latencies, len(senders))
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	for n, s := range senders {
		out[n].name = s.name
		for i := range s.clients {
			first := time.Now().Add(s.every * time.Duration(i) / time.Duration(s.clients))
			all.Go(func() {
				token := s.token
				if s.lease == "node" {
					token += fmt.Sprint("-", i)
				}
				c := newCaller(url, token)
				defer c.web.CloseIdleConnections()
				round := 0
				for due := first; due.Before(end); due = due.Add(s.every) {
					time.Sleep(time.Until(due))
					code, err := s.send(ctx, c, i, round)
					out[n].add(time.Since(due), err == nil && code < 300)
					round++
				}
			})
		}
	}
	all.Wait()
	return out, ctx.Err()
}

// send sends one request of client i.
func (s *sender) send(ctx context.Context, c *caller, i, round int) (int, error) {
	if s.lease != "" {
		path := fmt.Sprintf(leasesPath+"/%s-%d", s.namespace, s.lease, i)
		return c.do(ctx, http.MethodPatch, path, fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
	}
	name := fmt.Sprintf("c-%d-%d", i, time.Now().UnixNano())
	switch round % 3 {
	case 0:
		return c.do(ctx, http.MethodPost, tenantPath, configMap(name))
	case 1:
		return c.do(ctx, http.MethodGet, "/api/v1/namespaces/tenant", "")
	}
	return c.do(ctx, http.MethodGet, tenantPath+"?limit=50", "")
}
