// Package clusterinfo signs and verifies what a node learns about a cluster before it trusts the
// cluster: a kubeconfig without credentials, in the ConfigMap cluster-info of kube-public, with a
// signature for each bootstrap token
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#configmap-signing).
//
//	data[clusterinfo.SignatureKey("abcdef")] = clusterinfo.Sign(kubeconfig, "abcdef", secret)
//	kubeconfig, err := clusterinfo.Verify(data, "abcdef", secret)
//
// A signature is a JWS with detached content (RFC 7515, appendix F), whose algorithm is HS256 and
// whose key is the secret part of the token. Every holder of the token can make one, so a node that
// wants more than the word of other token holders also compares [PublicKeyHash] of the authority with
// one that it was given.
package clusterinfo

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The ConfigMap and the key of its kubeconfig.
const (
	Namespace = "kube-public"
	Name      = "cluster-info"
	Key       = "kubeconfig"
)

// signaturePrefix is the prefix of the keys of signatures.
const signaturePrefix = "jws-kubeconfig-"

// hashPrefix names the algorithm of PublicKeyHash.
const hashPrefix = "sha256:"

// ErrUnsigned means that there is no signature for a token. The token may have expired, or may not be
// meant for signing.
var ErrUnsigned = errors.New("no signature for the token")

// ErrSignature means that a signature was made with another secret or for another kubeconfig.
var ErrSignature = errors.New("the signature does not match the token")

// SignatureKey returns the key of the signature for the token with this ID.
func SignatureKey(id string) string { return signaturePrefix + id }

// TokenID returns the ID of the token whose signature a key holds, and false if the key is not one of
// a signature.
func TokenID(key string) (id string, ok bool) { return strings.CutPrefix(key, signaturePrefix) }

// Sign returns the signature of a kubeconfig for a token. id must have no characters that JSON
// escapes.
func Sign(kubeconfig, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + encode([]byte(kubeconfig))))
	return header + ".." + encode(mac.Sum(nil))
}

// Verify returns the kubeconfig among the data of the ConfigMap if it has the signature for a token.
func Verify(data map[string]string, id, secret string) (kubeconfig string, err error) {
	signature, ok := data[SignatureKey(id)]
	if !ok {
		return "", ErrUnsigned
	}
	if !hmac.Equal([]byte(signature), []byte(Sign(data[Key], id, secret))) {
		return "", ErrSignature
	}
	return data[Key], nil
}

// PublicKeyHash returns "sha256:" and the hash of a certificate's public key in hexadecimal, as
// kubeadm join --discovery-token-ca-cert-hash takes it. A certificate that is issued again for the
// same key has the same hash.
func PublicKeyHash(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return hashPrefix + hex.EncodeToString(sum[:])
}

// CheckHash returns an error if a text is not a hash in the form of [PublicKeyHash].
func CheckHash(text string) error {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok {
		return fmt.Errorf("hash %q does not begin with %s", text, hashPrefix)
	}
	if sum, err := hex.DecodeString(digits); err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("hash %q does not have %d hexadecimal digits", text, 2*sha256.Size)
	}
	return nil
}
