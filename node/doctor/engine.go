package doctor

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
)

// askTime is the longest time that another program may take to answer.
const askTime = 10 * time.Second

func lookEngine(_ context.Context, p *patient) Finding {
	v, err := p.engine()
	switch {
	case container.NoCommand(err):
		return bad(p.without(), "install Docker Engine (docker.io on Debian); a fabric of processes needs no Docker", "there is no docker command")
	case err != nil:
		wayOut := ""
		if host := os.Getenv("DOCKER_HOST"); host != "" {
			wayOut = "check the environment variable DOCKER_HOST, which is " + host
		}
		return bad(p.without(), wayOut, "%v", err)
	}
	return ok("engine %s, client %s", v.Server, v.Client)
}

// noEngine reports whether no container engine answers. In this case, noEngine also returns
// the finding of a check that needs an engine.
func noEngine(p *patient) (Finding, bool) {
	if _, err := p.engine(); err != nil {
		return bad(p.without(), "see 'docker engine'", "not known, because no engine answers"), true
	}
	return Finding{}, false
}

func lookBuilder(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	version, err := container.BuildxVersion(ctx)
	switch {
	case err == nil:
		return ok("the engine builds images with BuildKit (%s); 'scripts/image' also works without BuildKit", version)
	case os.Getenv("DOCKER_BUILDKIT") == "1":
		return bad(p.without(), "unset DOCKER_BUILDKIT, or install buildx", "DOCKER_BUILDKIT=1 asks for BuildKit, but there is no buildx")
	}
	return ok("the engine builds images with the classic builder, which is enough for 'scripts/image' and docker/Dockerfile")
}

func lookCompose(ctx context.Context, p *patient) Finding {
	command, err := container.ComposeCommand(ctx)
	if err != nil {
		return bad(p.without(), "install docker-compose (Debian), or docker-compose-plugin (Docker's packages)", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	name := strings.Join(command, " ")
	version, err := container.ComposeVersion(ctx, command)
	if err != nil {
		return bad(p.without(), "see 'docker engine'", "%s: %v", name, err)
	}
	return ok("%s: %s", name, version)
}

func lookImage(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	i, missing, err := container.FindImage(ctx, p.Image)
	switch {
	case missing:
		return bad(p.without(), "'scripts/image' in the sources builds the image; --image names another image", "there is no image %s", p.Image)
	case err != nil:
		return bad(p.without(), "", "image %s: %v", p.Image, err)
	}
	return ok("%s: %.12s, %d MiB, %s", p.Image, i.ID, i.Bytes>>20, i.Architecture)
}

func lookNetworks(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ids, err := container.BridgeIDs(ctx)
	if err != nil {
		return bad(p.without(), "", "%v", err)
	}
	nets, err := container.Networks(ctx, ids)
	if err != nil {
		return bad(Warning, "", "the engine's networks cannot be read: %v", err) // another program may have removed a network between the two calls
	}
	name, mtu := uplink()
	return judgeNetworks(nets, p.chips(), p.Runtime == spec.Docker, name, mtu)
}

// judgeNetworks compares the MTU of the engine's bridges with the MTU of the interface to
// other machines. judgeNetworks also compares the number of chips with the largest number
// of containers on a bridge. The parameter "wanted" says that the fabric is to run in
// containers. The parameter "uplink" is the interface to other machines, or "" if there is
// none. The parameter "most" is the MTU of the uplink in bytes.
func judgeNetworks(nets []container.Network, chips int, wanted bool, uplink string, most int) Finding {
	var mtus, wide []string
	for i := range nets {
		mtu := nets[i].MTU()
		text := nets[i].Name + " " + strconv.Itoa(mtu)
		mtus = append(mtus, text)
		if most > 0 && mtu > most {
			wide = append(wide, text)
		}
	}
	switch {
	case chips > container.MaxContainers && wanted:
		return bad(Failure, "use several machines with 'ttfabric stack', or '--runtime process'", "a bridge has room for at most %[2]d containers, but the fabric has %[1]d chips", chips, container.MaxContainers)
	case chips > container.MaxContainers:
		return bad(Warning, "use '--runtime process', or several machines", "a bridge has room for at most %[2]d containers, but the fabric has %[1]d chips", chips, container.MaxContainers)
	case len(wide) > 0:
		return bad(Warning, fmt.Sprintf("for a fabric on this machine only, do nothing; otherwise set \"mtu\": %d in /etc/docker/daemon.json, and use 'up --mtu %d'", most, most),
			"the interface %[2]s to other machines has an MTU of %[1]d, but these networks have a larger MTU: %[3]s", most, uplink, join(wide))
	}
	return ok("a bridge has room for at most %d containers; MTUs of the bridges: %s", container.MaxContainers, join(mtus))
}
