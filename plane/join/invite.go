package join

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki/clusterinfo"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// Group is the group of the users of tokens that Invite makes, the same as kubeadm's.
	Group = bootstraptoken.Group + ":kubeadm:default-node-token"
	// DefaultLifetime is the default of [InviteConfig.Lifetime], the same as kubeadm's.
	DefaultLifetime = 24 * time.Hour
)

// InviteConfig describes an invitation. Client, Server and CA are required.
type InviteConfig struct {
	// Client acts as an administrator: it writes secrets, the ConfigMap cluster-info and roles.
	Client *client.Client
	// Server is the URL by which nodes reach the API server.
	Server string
	// CA has the cluster's authorities in PEM.
	CA []byte
	// Token is the token to create. Empty means a new one at random.
	Token string
	// Lifetime is how long the token can be used. Zero means DefaultLifetime; a negative value means
	// for ever.
	Lifetime time.Duration
	// Description is for people who list tokens.
	Description string
}

// An Invitation has what a node needs to join. A holder of the token can make any machine a node of the
// cluster.
type Invitation struct {
	Server   string
	Token    string
	CAHashes []string
	// Expires is when the token can no longer be used, zero for never.
	Expires time.Time
}

// Args returns the invitation as the arguments of a command: --join, --token and
// --discovery-token-ca-cert-hash.
func (i *Invitation) Args() []string {
	args := []string{"--join", i.Server, "--token", i.Token}
	for _, hash := range i.CAHashes {
		args = append(args, "--discovery-token-ca-cert-hash", hash)
	}
	return args
}

// Invite creates a bootstrap token and all that nodes need to join by it: the ConfigMap cluster-info with
// the signature of the token, for everybody to read, and the rights of the token's users and of nodes to
// request certificates. These have the names that kubeadm gives them. What exists is completed.
func Invite(ctx context.Context, c InviteConfig) (*Invitation, error) {
	hashes, err := hashesOf(c.CA)
	switch {
	case c.Client == nil:
		return nil, errors.New("join: InviteConfig: no Client")
	case !strings.HasPrefix(c.Server, "https://"):
		return nil, fmt.Errorf("join: InviteConfig: Server %q is not an https URL", c.Server)
	case err != nil:
		return nil, fmt.Errorf("join: InviteConfig: CA: %w", err)
	}
	if c.Token == "" {
		c.Token = newToken()
	}
	id, secret, ok := bootstraptoken.Parse(c.Token)
	if !ok {
		return nil, errors.New("join: InviteConfig: Token does not have the form abcdef.0123456789abcdef")
	}
	out := &Invitation{Server: c.Server, Token: c.Token, CAHashes: hashes}
	if c.Lifetime == 0 {
		c.Lifetime = DefaultLifetime
	}
	if c.Lifetime > 0 {
		out.Expires = time.Now().Add(c.Lifetime).UTC().Truncate(time.Second)
	}
	for _, step := range []func() error{
		func() error { return grant(ctx, c.Client) },
		func() error { return createToken(ctx, c, id, secret, out.Expires) },
		func() error { return publish(ctx, c, id, secret) },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("join: invite nodes: %w", err)
		}
	}
	return out, nil
}

// hashesOf returns the hashes of the authorities in a bundle.
func hashesOf(bundle []byte) ([]string, error) {
	var hashes []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, clusterinfo.PublicKeyHash(certificate))
	}
	if len(hashes) == 0 {
		return nil, errors.New("no certificate")
	}
	return hashes, nil
}

// newToken returns a token of random letters and digits.
func newToken() string {
	// rand.Text has letters of base32, each with five random bits: 80 in the secret part.
	text := strings.ToLower(rand.Text())
	return text[:6] + "." + text[6:22]
}

func createToken(ctx context.Context, c InviteConfig, id, secret string, expires time.Time) error {
	data := map[string]string{
		"token-id": id, "token-secret": secret, "auth-extra-groups": Group,
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
	}
	if !expires.IsZero() {
		data["expiration"] = expires.Format(time.RFC3339)
	}
	if c.Description != "" {
		data["description"] = c.Description
	}
	_, err := typed.Secrets(c.Client).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: bootstraptoken.Namespace, Name: bootstraptoken.NamePrefix + id},
		Type:       corev1.SecretTypeBootstrapToken, StringData: data,
	})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the token %s exists", id)
	}
	return err
}

// publish writes cluster-info and signs it. The controller that signs comes to the same signature.
func publish(ctx context.Context, c InviteConfig, id, secret string) error {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config",
		"clusters": []any{map[string]any{"name": "", "cluster": kubeconfig.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}}},
	})
	if err != nil {
		return err
	}
	configMaps := typed.ConfigMaps(c.Client)
	for {
		have, err := configMaps.Get(ctx, clusterinfo.Namespace, clusterinfo.Name)
		switch {
		case apierrors.IsNotFound(err):
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: clusterinfo.Namespace, Name: clusterinfo.Name}}
			made.Data = map[string]string{clusterinfo.Key: string(text), clusterinfo.SignatureKey(id): clusterinfo.Sign(string(text), id, secret)}
			_, err = configMaps.Create(ctx, made)
		case err == nil:
			changed := have.DeepCopy()
			if changed.Data[clusterinfo.Key] == "" {
				changed.Data = map[string]string{clusterinfo.Key: string(text)}
			}
			if err := sameAuthorities(changed.Data[clusterinfo.Key], c.CA); err != nil {
				return err
			}
			changed.Data[clusterinfo.SignatureKey(id)] = clusterinfo.Sign(changed.Data[clusterinfo.Key], id, secret)
			if maps.Equal(changed.Data, have.Data) {
				return nil
			}
			_, err = configMaps.Update(ctx, changed)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// sameAuthorities returns an error if a kubeconfig lacks one of the authorities.
func sameAuthorities(text string, bundle []byte) error {
	published, err := authoritiesIn(text)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", clusterinfo.Namespace, clusterinfo.Name, err)
	}
	have, err := hashesOf(published)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", clusterinfo.Namespace, clusterinfo.Name, err)
	}
	want, err := hashesOf(bundle)
	for _, hash := range want {
		if !slices.Contains(have, hash) {
			return fmt.Errorf("ConfigMap %s/%s names other authorities: delete it to publish these", clusterinfo.Namespace, clusterinfo.Name)
		}
	}
	return err
}

// grant creates the roles and bindings of nodes that join.
func grant(ctx context.Context, api *client.Client) error {
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterinfo.Namespace, Name: "kubeadm:bootstrap-signer-clusterinfo"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusterinfo.Name}}},
	}
	if err := create(ctx, typed.Roles(api), role); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Anonymous}},
	}
	if err := create(ctx, typed.RoleBindings(api), binding); err != nil {
		return err
	}
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	for _, b := range []struct{ name, role, group string }{
		{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", Group},
		{"kubeadm:node-autoapprove-bootstrap", requests + "nodeclient", Group},
		{"kubeadm:node-autoapprove-certificate-rotation", requests + "selfnodeclient", user.Nodes},
	} {
		err := create(ctx, typed.ClusterRoleBindings(api), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates object unless it exists.
func create[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// A Token is a bootstrap token of a cluster.
type Token struct {
	// ID is the public part of the token, Secret the other one.
	ID, Secret string
	// Expires is when the token can no longer be used, zero for never.
	Expires time.Time
	// Usages lists the uses of the token: authentication, signing.
	Usages []string
	// Groups are the groups of its users, beside system:bootstrappers.
	Groups      []string
	Description string
}

// Tokens returns the bootstrap tokens of a cluster by ID. An expiry that cannot be parsed counts as the
// time zero of Unix.
func Tokens(ctx context.Context, api *client.Client) ([]Token, error) {
	secrets, _, err := typed.Secrets(api).List(ctx, bootstraptoken.Namespace, metav1.ListOptions{FieldSelector: "type=" + bootstraptoken.SecretType})
	if err != nil {
		return nil, fmt.Errorf("join: list tokens: %w", err)
	}
	var out []Token
	for _, s := range secrets {
		text := func(key string) string { return string(s.Data[key]) }
		t := Token{ID: text("token-id"), Secret: text("token-secret"), Description: text("description")}
		if expiration := text("expiration"); expiration != "" {
			if t.Expires, err = time.Parse(time.RFC3339, expiration); err != nil {
				t.Expires = time.Unix(0, 0)
			}
		}
		for _, usage := range []string{"authentication", "signing"} {
			if text("usage-bootstrap-"+usage) == "true" {
				t.Usages = append(t.Usages, usage)
			}
		}
		if groups := text("auth-extra-groups"); groups != "" {
			t.Groups = strings.Split(groups, ",")
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Revoke deletes a token, given whole or by its ID. Nodes that joined by it stay.
func Revoke(ctx context.Context, api *client.Client, token string) error {
	id, _, _ := strings.Cut(token, ".")
	if _, _, ok := bootstraptoken.Parse(id + ".0123456789abcdef"); !ok {
		return fmt.Errorf("join: revoke a token: the ID %q does not have the form abcdef", id)
	}
	err := typed.Secrets(api).Delete(ctx, bootstraptoken.Namespace, bootstraptoken.NamePrefix+id, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("join: revoke a token: there is no token %s", id)
	}
	if err != nil {
		return fmt.Errorf("join: revoke the token %s: %w", id, err)
	}
	return nil
}
