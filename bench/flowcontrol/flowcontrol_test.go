// Package flowcontrol compares the decisions of package apiserver/flowcontrol with those of
// kube-apiserver's API Priority and Fairness: that both assign requests to the same schemas and
// flows, and the cost of a request.
//
//	cd bench && go test -run '^$' -bench . ./flowcontrol
package flowcontrol

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	stock "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

const seats = 600

// newStock returns kube-apiserver's controller with its own bootstrap objects.
func newStock(tb testing.TB) stock.Interface {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset()
	for _, levels := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, l := range levels {
			if err := client.Tracker().Add(l.DeepCopy()); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for _, schemas := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, s := range schemas {
			if err := client.Tracker().Add(s.DeepCopy()); err != nil {
				tb.Fatal(err)
			}
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := stock.New(factory, client.FlowcontrolV1(), seats)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx.Done()) })
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	// The controller has the objects once it assigns a request to one of them.
	jane := digest(&flowcontrol.Request{User: "jane", Groups: []string{user.AllAuthenticated}, Verb: "get", Path: "/"})
	for began := time.Now(); ; runtime.Gosched() {
		if schema, _ := handle(c, jane); schema == "global-default" {
			return c
		}
		if time.Since(began) > time.Minute {
			tb.Fatal("the stock controller does not take up its objects")
		}
	}
}

func digest(r *flowcontrol.Request) stock.RequestDigest {
	return stock.RequestDigest{
		RequestInfo: &request.RequestInfo{
			IsResourceRequest: r.Resource != "", Path: r.Path, Verb: r.Verb, APIGroup: r.APIGroup,
			Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		},
		User: &user.DefaultInfo{Name: r.User, Groups: r.Groups},
	}
}

func oneSeat() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} }

// handle returns the schema and flow of a request.
func handle(c stock.Interface, d stock.RequestDigest) (schema, flow string) {
	c.Handle(context.Background(), d, func(s *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, distinguisher string) {
		schema, flow = s.Name, distinguisher
	}, oneSeat, fq.QueueNoteFn(func(bool) {}), func() {})
	return schema, flow
}

// random returns a request like those in clusters, often close to a rule.
func random(r *rand.Rand) *flowcontrol.Request {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	q := &flowcontrol.Request{
		User: pick("jane", "system:anonymous", "system:kube-scheduler", "system:kube-controller-manager", "system:node:a",
			"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:x", "system:serviceaccount:default:default", "system:serviceaccount:kube-systems:x"),
		Verb: pick("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
	}
	for _, group := range []string{"system:nodes", "system:masters", "system:serviceaccounts", "system:serviceaccounts:kube-system", "dev"} {
		if r.IntN(5) == 0 {
			q.Groups = append(q.Groups, group)
		}
	}
	q.Groups = append(q.Groups, pick(user.AllAuthenticated, user.AllUnauthenticated))
	if r.IntN(4) == 0 {
		q.Path = pick("/", "/healthz", "/healthz/etcd", "/readyz", "/livez", "/metrics", "/healthzz", "/api")
		return q
	}
	q.APIGroup = pick("", "coordination.k8s.io", "apps")
	q.Resource = pick("pods", "nodes", "leases", "endpoints", "configmaps", "deployments")
	q.Subresource = pick("", "", "status", "scale")
	q.Namespace = pick("", "default", "kube-system", "kube-node-lease")
	q.Path = "/apis/x"
	return q
}

// Both assign requests to the same schemas and flows.
func TestSameSchemasAndFlows(t *testing.T) {
	theirs, seed := newStock(t), rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ours, err := flowcontrol.New(flowcontrol.Default(seats), 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 20_000 {
		q := random(r)
		schema, flow := ours.Classify(q)
		wantSchema, wantFlow := handle(theirs, digest(q))
		if schema.Name != wantSchema || flow != wantFlow {
			t.Fatalf("%+v is of %s, flow %q; of %s, flow %q in kube-apiserver", q, schema.Name, flow, wantSchema, wantFlow)
		}
		seen[schema.Name]++
	}
	for _, s := range flowcontrol.Default(seats).Schemas {
		if s.Name != flowcontrol.CatchAllName && seen[s.Name] == 0 {
			t.Errorf("no request was of %s", s.Name)
		}
	}
}

// The levels have the limits that kube-apiserver computes.
func TestSameLevels(t *testing.T) {
	config := flowcontrol.Default(seats)
	have := map[string]flowcontrol.Level{}
	for _, l := range config.Levels {
		have[l.Name] = l
	}
	n := 0
	for _, levels := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, want := range levels {
			n++
			l := have[want.Name]
			if limited := want.Spec.Limited; limited != nil {
				same := l.Shares == int(*limited.NominalConcurrencyShares) && l.LendablePercent == int(*limited.LendablePercent)
				if q := limited.LimitResponse.Queuing; q != nil {
					same = same && l.Queues == int(q.Queues) && l.HandSize == int(q.HandSize) && l.QueueLength == int(q.QueueLengthLimit)
				} else {
					same = same && l.Queues == 0
				}
				if !same {
					t.Errorf("%s is %+v, want %+v", want.Name, l, limited)
				}
			} else if !l.Exempt {
				t.Errorf("%s is not exempt", want.Name)
			}
		}
	}
	if n != len(config.Levels) {
		t.Errorf("%d levels, want %d", len(config.Levels), n)
	}
}

// BenchmarkRequest measures one request at a level with free seats, with a number of goroutines for
// each processor.
func BenchmarkRequest(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		jane := &flowcontrol.Request{User: "jane", Groups: []string{"dev", user.AllAuthenticated}, Verb: "get", Resource: "pods", Namespace: "default", Path: "/api/v1/namespaces/default/pods/a"}
		b.Run(fmt.Sprintf("goroutines=%d/planekit", goroutines), func(b *testing.B) {
			c, err := flowcontrol.NewController(flowcontrol.Default(seats))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(goroutines)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					t, err := c.Enter(context.Background(), jane)
					if err != nil {
						b.Error(err)
						return
					}
					c.Leave(t)
				}
			})
		})
		b.Run(fmt.Sprintf("goroutines=%d/kube-apiserver", goroutines), func(b *testing.B) {
			c, d := newStock(b), digest(jane)
			b.ReportAllocs()
			b.SetParallelism(goroutines)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					executed := false
					c.Handle(context.Background(), d, func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) {}, oneSeat, func(bool) {}, func() { executed = true })
					if !executed {
						b.Error("rejected")
						return
					}
				}
			})
		})
	}
}
