package clusterinfo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/clusterinfo"
)

func Example() {
	data := map[string]string{clusterinfo.Key: "clusters: []"}
	data[clusterinfo.SignatureKey("abcdef")] = clusterinfo.Sign(data[clusterinfo.Key], "abcdef", "0123456789abcdef")
	fmt.Println(clusterinfo.Verify(data, "abcdef", "0123456789abcdef"))
	_, err := clusterinfo.Verify(data, "abcdef", "another")
	fmt.Println(err)
	// Output:
	// clusters: [] <nil>
	// the signature does not match the token
}

// TestSignature compares with signatures that Kubernetes makes
// (https://github.com/kubernetes/cluster-bootstrap/blob/v0.36.0/token/jws/jws_test.go).
func TestSignature(t *testing.T) {
	const header, secret = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..", "my voice is my passcode"
	for text, want := range map[string]string{
		"Hello from the other side. I must have called a thousand times.": "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8",
		"": "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk",
	} {
		if have := clusterinfo.Sign(text, "joshua", secret); have != header+want {
			t.Errorf("%q: %s, want %s", text, have, header+want)
		}
	}
}

func TestVerify(t *testing.T) {
	signed := func() map[string]string {
		return map[string]string{clusterinfo.Key: "a", "jws-kubeconfig-abcdef": clusterinfo.Sign("a", "abcdef", "s")}
	}
	for name, c := range map[string]struct {
		change func(map[string]string)
		want   error
	}{
		"signed":            {func(map[string]string) {}, nil},
		"another text":      {func(d map[string]string) { d[clusterinfo.Key] = "b" }, clusterinfo.ErrSignature},
		"no text":           {func(d map[string]string) { delete(d, clusterinfo.Key) }, clusterinfo.ErrSignature},
		"no signature":      {func(d map[string]string) { delete(d, "jws-kubeconfig-abcdef") }, clusterinfo.ErrUnsigned},
		"an empty one":      {func(d map[string]string) { d["jws-kubeconfig-abcdef"] = "" }, clusterinfo.ErrSignature},
		"of another token":  {func(d map[string]string) { d["jws-kubeconfig-abcdef"] = clusterinfo.Sign("a", "bbbbbb", "s") }, clusterinfo.ErrSignature},
		"another algorithm": {func(d map[string]string) { d["jws-kubeconfig-abcdef"] = "eyJhbGciOiJub25lIn0.." }, clusterinfo.ErrSignature},
	} {
		data := signed()
		c.change(data)
		if _, err := clusterinfo.Verify(data, "abcdef", "s"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestHash(t *testing.T) {
	one, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	hash := clusterinfo.PublicKeyHash(one.Certificate)
	if err := clusterinfo.CheckHash(hash); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", hash[:len(hash)-1], hash + "00", strings.TrimPrefix(hash, "sha256:"), "sha256:" + strings.Repeat("x", 64)} {
		if err := clusterinfo.CheckHash(wrong); err == nil {
			t.Errorf("%q is a hash", wrong)
		}
	}
}
