package nodeimages

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/planekit/planekit/examples/cluster/imagefile"
)

const (
	// namespace is where containerd's CRI plugin has images.
	namespace = "k8s.io"
	// leaseTime bounds how long containerd keeps what a load has stored if this process ends in the middle.
	leaseTime = time.Hour
	// chunk is the size of a part of a blob, in bytes: less than the 16 MiB that a message may have.
	chunk = 1 << 20
)

// store is containerd's own API, which has more than CRI: images can be written to it.
type store struct{ conn *grpc.ClientConn }

func openStore(socket string) (*store, error) {
	conn, err := grpc.NewClient("passthrough:///"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	return &store{conn}, err
}

func (s *store) Close() error { return s.conn.Close() }

// call makes a call without interest in the response.
func (s *store) call(ctx context.Context, method string, in message) error {
	var out message
	return s.conn.Invoke(ctx, "/containerd.services."+method, in, &out)
}

// lease returns a context whose calls keep what they store from being collected as garbage, until release is called.
func (s *store) lease(ctx context.Context) (leased context.Context, release func() error, err error) {
	id := "planekit-load-" + rand.Text()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
	expire := map[string]string{"containerd.io/gc.expire": time.Now().Add(leaseTime).UTC().Format(time.RFC3339)}
	if err := s.call(ctx, "leases.v1.Leases/Create", message{}.text(1, id).labels(3, expire)); err != nil {
		return nil, nil, err
	}
	release = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return s.call(ctx, "leases.v1.Leases/Delete", message{}.text(1, id))
	}
	return metadata.AppendToOutgoingContext(ctx, "containerd-lease", id), release, nil
}

// load stores an image and gives it names.
func (s *store) load(ctx context.Context, image *imagefile.Image, names []string) (err error) {
	ctx, release, err := s.lease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, blob := range image.Blobs {
		if err := s.writeBlob(ctx, image, blob); err != nil {
			return fmt.Errorf("store %v: %w", blob.Digest, err)
		}
	}
	if err := s.writeManifest(ctx, image); err != nil {
		return fmt.Errorf("store manifest %v: %w", image.Descriptor.Digest, err)
	}
	for _, name := range names {
		if err := s.name(ctx, name, image.Descriptor); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) writeBlob(ctx context.Context, image *imagefile.Image, blob v1.Descriptor) error {
	file, err := image.Open(blob)
	if err != nil {
		return err
	}
	defer file.Close()
	return s.write(ctx, blob, file)
}

// writeManifest stores the manifest, whose labels keep the blobs for as long as the manifest is there.
func (s *store) writeManifest(ctx context.Context, image *imagefile.Image) error {
	manifest := image.Descriptor
	if err := s.write(ctx, manifest, bytes.NewReader(image.Manifest)); err != nil {
		return err
	}
	labels := map[string]string{}
	var paths []string
	for i, blob := range image.Blobs {
		key := fmt.Sprintf("containerd.io/gc.ref.content.%d", i)
		labels[key] = blob.Digest.String()
		paths = append(paths, "labels."+key)
	}
	info := message{}.text(1, manifest.Digest.String()).labels(5, labels)
	return s.call(ctx, "content.v1.Content/Update", message{}.bytes(1, info).paths(2, paths...))
}

// write stores content, whose digest containerd checks. Content that is there already is left.
func (s *store) write(ctx context.Context, blob v1.Descriptor, content io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/containerd.services.content.v1.Content/Write")
	if err != nil {
		return err
	}
	ref := "planekit-" + rand.Text()
	send := func(action, offset int64, data []byte) error {
		request := message{}.number(1, action).text(2, ref).number(3, blob.Size).text(4, blob.Digest.String()).number(5, offset).bytes(6, data)
		if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		} // at io.EOF, the response has the error
		var response message
		return stream.RecvMsg(&response)
	}
	buffer := make([]byte, min(chunk, max(blob.Size, 1)))
	for offset := int64(0); ; {
		n, err := io.ReadFull(content, buffer)
		if n > 0 {
			if err := send(writeAction, offset, buffer[:n]); err != nil {
				return unlessThere(err)
			}
			offset += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return unlessThere(send(commitAction, offset, nil))
		}
		if err != nil {
			return err
		}
	}
}

// unlessThere returns an error of the store, or nil if the store has the content already.
func unlessThere(err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.OK, codes.AlreadyExists:
		return nil
	case codes.FailedPrecondition: // another digest or size than that of the manifest
		return fmt.Errorf("the file is damaged: %s", s.Message())
	default:
		return errors.New(s.Message())
	}
}

// name gives a manifest a name, which another image may have had.
func (s *store) name(ctx context.Context, name string, manifest v1.Descriptor) error {
	image := message{}.text(1, name).bytes(3, descriptor(manifest))
	err := s.call(ctx, "images.v1.Images/Create", message{}.bytes(1, image))
	if status.Code(err) == codes.AlreadyExists {
		err = s.call(ctx, "images.v1.Images/Update", message{}.bytes(1, image).paths(2, "target"))
	}
	if err != nil {
		return fmt.Errorf("name %s: %s", name, status.Convert(err).Message())
	}
	return nil
}

// forget removes one name of an image.
func (s *store) forget(ctx context.Context, name string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
	return s.call(ctx, "images.v1.Images/Delete", message{}.text(1, name).number(2, 1))
}
