// Package abac compares a decision of package authz/abac with one of kube-apiserver's ABAC
// authorizer. compat/abac tests that both decide alike.
//
//	cd bench && go test -run '^$' -bench . ./abac
package abac

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	stockabac "k8s.io/kubernetes/pkg/auth/authorizer/abac"
)

// BenchmarkAuthorize uses policies of a hundred users, each for one namespace.
func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		var file bytes.Buffer
		for i := range n {
			fmt.Fprintf(&file, `{"user":"user-%d","namespace":"ns-%d","resource":"pods"}`+"\n", i%100, i)
		}
		stock, ours := both(b, file.Bytes())
		at := authz.Attributes{
			User: &user.Info{Name: "user-5", Groups: []string{"dev", user.Authenticated}}, Verb: "create",
			Namespace: fmt.Sprint("ns-", n/2/100*100+5), Resource: "pods",
		}
		b.Run(fmt.Sprintf("policies=%d/planekit", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := ours.Authorize(b.Context(), at); d != authz.Allow {
					b.Fatal(d)
				}
			}
		})
		b.Run(fmt.Sprintf("policies=%d/stock", n), func(b *testing.B) {
			b.ReportAllocs()
			same := authorizer.AttributesRecord{
				User: &stockuser.DefaultInfo{Name: at.User.Name, Groups: at.User.Groups}, Verb: at.Verb,
				Namespace: at.Namespace, Resource: at.Resource, ResourceRequest: true,
			}
			for b.Loop() {
				if d, _, _ := stock.Authorize(b.Context(), same); d != authorizer.DecisionAllow {
					b.Fatal(d)
				}
			}
		})
	}
}

// both loads the same policies into the stock authorizer and ours.
func both(b *testing.B, file []byte) (stockabac.PolicyList, *abac.Authorizer) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "policies")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		b.Fatal(err)
	}
	stock, err := stockabac.NewFromFile(path)
	if err != nil {
		b.Fatal(err)
	}
	policies, err := abac.Parse(bytes.NewReader(file))
	if err != nil {
		b.Fatal(err)
	}
	return stock, abac.New(policies)
}
