package staticpods

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/podreference"
	"github.com/planekit/planekit/internal/yamljson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
)

const (
	// maxManifest is the maximum size of a manifest in bytes, as in Kubernetes.
	maxManifest = 10 << 20
	// maxDepth, maxMemory and maxValues bound the objects of a manifest: their levels, bytes, and
	// fields and items.
	maxDepth  = 256
	maxMemory = 64 << 20
	maxValues = 200_000
)

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxManifest)

// The annotations that a kubelet adds to static pods, and the values of the source.
const (
	annotationHash   = "kubernetes.io/config.hash"
	annotationSource = "kubernetes.io/config.source"
	annotationSeen   = "kubernetes.io/config.seen"

	sourceFile = "file"
	sourceHTTP = "http"
)

// builder makes static pods of manifests.
type builder struct {
	node     string
	source   string
	complete func(*corev1.Pod) error
	costs    bodycost.Types
}

// toJSON returns the JSON of a manifest, which may be YAML, and its kind.
func (*builder) toJSON(ctx context.Context, data []byte) ([]byte, metav1.TypeMeta, error) {
	var kind metav1.TypeMeta
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		var err error
		if data, _, err = yamljson.Convert(ctx, data, yamljson.Limits{Depth: maxDepth, Bytes: maxManifest}, false); err != nil {
			return nil, kind, err
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &kind); err != nil {
		return nil, kind, err
	}
	if kind.APIVersion != "v1" || kind.Kind == "" {
		return nil, kind, fmt.Errorf("no kind %q is registered for version %q", kind.Kind, kind.APIVersion)
	}
	return data, kind, nil
}

// decode decodes text into object, within bounds.
func (b *builder) decode(ctx context.Context, text []byte, object any) error {
	if _, err := b.costs.JSON(ctx, text, reflect.TypeOf(object).Elem(), bodycost.Limits{Depth: maxDepth, Bytes: maxMemory, Values: maxValues}); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, object)
}

// decodePod decodes a manifest of one Pod.
func (b *builder) decodePod(ctx context.Context, data []byte) (*corev1.Pod, error) {
	text, kind, err := b.toJSON(ctx, data)
	if err != nil {
		return nil, err
	}
	if kind.Kind != "Pod" {
		return nil, fmt.Errorf("invalid pod: it is a %s", kind.Kind)
	}
	pod := &corev1.Pod{}
	return pod, b.decode(ctx, text, pod)
}

// decodePods decodes a manifest of one Pod or of a PodList.
func (b *builder) decodePods(ctx context.Context, data []byte) ([]*corev1.Pod, error) {
	text, kind, err := b.toJSON(ctx, data)
	if err != nil {
		return nil, err
	}
	switch kind.Kind {
	case "Pod":
		pod := &corev1.Pod{}
		return []*corev1.Pod{pod}, b.decode(ctx, text, pod)
	case "PodList":
		var list corev1.PodList
		err := b.decode(ctx, text, &list)
		var pods []*corev1.Pod
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
		return pods, err
	}
	return nil, fmt.Errorf("invalid pods list: it is a %s", kind.Kind)
}

// prepare makes a decoded pod a static pod of the node. place is the path or URL of its manifest.
func (b *builder) prepare(pod *corev1.Pod, place string) error {
	if pod.Name == "" {
		return errors.New("invalid pod: name is needed for the pod")
	}
	clean(pod)
	if pod.UID == "" {
		uid, err := b.uid(pod, place)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	pod.Name += "-" + strings.ToLower(b.node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = b.node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotationHash] = string(pod.UID)
	pod.Annotations[annotationSource] = b.source
	pod.Annotations[annotationSeen] = time.Now().Format(time.RFC3339Nano)
	if b.source == sourceFile {
		tolerateNoExecute(&pod.Spec)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if err := b.check(pod); err != nil {
		return fmt.Errorf("invalid pod: %w", err)
	}
	reference, err := podreference.Find(pod)
	if err != nil {
		return err
	}
	if reference != "" {
		return fmt.Errorf("static pods may not reference %s", reference)
	}
	return nil
}

// clean removes fields that an API server sets, and the mark of mirror pods.
func clean(pod *corev1.Pod) {
	pod.TypeMeta = metav1.TypeMeta{}
	pod.GenerateName, pod.ResourceVersion, pod.Generation = "", "", 0
	pod.CreationTimestamp, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = metav1.Time{}, nil, nil
	pod.OwnerReferences, pod.Finalizers, pod.ManagedFields = nil, nil, nil
	pod.Status = corev1.PodStatus{}
	delete(pod.Annotations, corev1.MirrorPodAnnotationKey)
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
}

// uid returns a hash of the pod as its manifest has it and of where that is.
func (b *builder) uid(pod *corev1.Pod, place string) (types.UID, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	hash := fnv.New128a()
	hash.Write(text)
	if b.source == sourceFile {
		fmt.Fprintf(hash, "host:%s", b.node)
		fmt.Fprintf(hash, "file:%s", place)
	} else {
		fmt.Fprintf(hash, "url:%s", place)
	}
	return types.UID(hex.EncodeToString(hash.Sum(nil))), nil
}

// tolerateNoExecute adds the toleration that keeps the pod on a node with problems.
func tolerateNoExecute(spec *corev1.PodSpec) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	for _, t := range spec.Tolerations {
		if t.MatchToleration(&all) {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, all)
}

// check completes and validates a pod. The name and the UID become parts of paths.
func (b *builder) check(pod *corev1.Pod) error {
	var errs []error
	for _, c := range []struct {
		field    string
		problems []string
	}{
		{"metadata.name", validation.IsDNS1123Subdomain(pod.Name)},
		{"metadata.namespace", validation.IsDNS1123Label(pod.Namespace)},
		{"metadata.uid", validation.IsDNS1123Subdomain(string(pod.UID))},
	} {
		if len(c.problems) > 0 {
			errs = append(errs, fmt.Errorf("%s: %s", c.field, strings.Join(c.problems, ", ")))
		}
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, errors.New("spec.ephemeralContainers: Forbidden: cannot be set on create"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return b.complete(pod)
}
