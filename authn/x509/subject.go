package x509

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// CredentialIDKey is the key of [user.Info.Extra] for the user's certificate: "X509SHA256=" and the
// hexadecimal hash of its DER encoding.
const CredentialIDKey = "authentication.kubernetes.io/credential-id"

// uidType is the type of the part of a subject that contains a user's UID
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
var uidType = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

var (
	errNameless = errors.New("the certificate has no common name")
	errUIDs     = errors.New("the certificate has more than one UID")
	errUID      = errors.New("the UID in the certificate is empty or not a string")
)

// subject reads the user from a verified certificate.
func subject(leaf *x509.Certificate) (*user.Info, error) {
	if leaf.Subject.CommonName == "" {
		return nil, errNameless
	}
	uid, err := uid(leaf)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(leaf.Raw)
	return &user.Info{
		Name:   leaf.Subject.CommonName,
		UID:    uid,
		Groups: slices.Clone(leaf.Subject.Organization),
		Extra:  map[string][]string{CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(hash[:])}},
	}, nil
}

func uid(leaf *x509.Certificate) (string, error) {
	uid := ""
	for _, part := range leaf.Subject.Names {
		if !part.Type.Equal(uidType) {
			continue
		}
		if uid != "" {
			return "", errUIDs
		}
		if uid, _ = part.Value.(string); uid == "" {
			return "", errUID
		}
	}
	return uid, nil
}

// colons formats the identifier of a key like other tools do, for example "0A:FF".
func colons(id []byte) string {
	var b strings.Builder
	for i, octet := range id {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02X", octet)
	}
	return b.String()
}
