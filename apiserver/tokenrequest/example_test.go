package tokenrequest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"

	"github.com/planekit/planekit/apiserver/tokenrequest"
	"github.com/planekit/planekit/authn/serviceaccount"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const issuer = "https://kubernetes.default.svc"

// stored maps namespace/name to objects of one kind.
type stored[T any] map[string]T

func (s stored[T]) get(_ context.Context, namespace, name string) (T, error) {
	if object, ok := s[namespace+"/"+name]; ok {
		return object, nil
	}
	var none T
	return none, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func pod(name, account, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta("shop", name, "uid-"+name), Spec: corev1.PodSpec{ServiceAccountName: account, NodeName: node}}
}

func config() tokenrequest.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	signer, err := serviceaccount.NewSigner(issuer, key)
	if err != nil {
		panic(err)
	}
	return tokenrequest.Config{
		Signer: signer, Audiences: []string{issuer},
		Pods: stored[*corev1.Pod]{"shop/web": pod("web", "web", "node-1"), "shop/db": pod("db", "db", "node-1"),
			"shop/far": pod("far", "web", "node-2"), "shop/new": pod("new", "web", "")}.get,
		Secrets: stored[*corev1.Secret]{"shop/key": {ObjectMeta: meta("shop", "key", "uid-key")}}.get,
		Nodes:   stored[*corev1.Node]{"/node-1": {ObjectMeta: meta("", "node-1", "uid-node-1")}}.get,
	}
}

var account = &corev1.ServiceAccount{ObjectMeta: meta("shop", "web", "uid-account")}

func Example() {
	tokens, err := tokenrequest.New(config())
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := tokens.Answer(context.Background(), account, &authenticationv1.TokenRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := answer.(*authenticationv1.TokenRequest)
	fmt.Println(tokens.Name, tokens.Kind, *request.Spec.ExpirationSeconds, request.Spec.Audiences, len(request.Status.Token) > 100)
	// Output: token TokenRequest 3600 [https://kubernetes.default.svc] true
}
