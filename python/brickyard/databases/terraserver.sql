-- The TerraServer database: tiles of map pictures, what is known of the pictures, and a gazetteer.
-- The loader runs this in one transaction; the comment on the schema is how Brickyard knows its own.

create schema terraserver;

create table terraserver.brick (
    name   text primary key,
    value  jsonb not null
);

-- A source picture, before it was cut into tiles.
create table terraserver.image (
    image_id          int4 primary key,
    theme             int2 not null,
    scene             int2 not null,
    title             text not null,
    state             text not null,
    taken             date not null,
    loaded            timestamptz not null default now(),
    metres_per_pixel  float8 not null,
    scale             int2 not null,
    x_first           int4 not null,
    y_first           int4 not null,
    x_last            int4 not null,
    y_last            int4 not null
);

-- A new version of a tile is there before the old one goes, so that no reader finds none.
create table terraserver.tile (
    theme     int2 not null,
    scale     int2 not null,
    scene     int2 not null,
    x         int4 not null,
    y         int4 not null,
    version   int4 not null,
    image_id  int4 not null references terraserver.image,
    picture   bytea not null,
    primary key (theme, scale, scene, x, y, version)
);
-- JPEG can't be made smaller: EXTERNAL keeps it out of line and spends no time in trying.
alter table terraserver.tile alter column picture set storage external;

create table terraserver.place (
    place_id   int4 primary key,
    name       text not null,
    state      text not null,
    latitude   float8 not null,
    longitude  float8 not null,
    scene      int2 not null,
    easting_m  int4 not null,
    northing_m int4 not null,
    is_famous  bool not null
);
create index place_name on terraserver.place (lower(name) text_pattern_ops);

-- Which areas may be downloaded whole, and how many tiles of the finest scale they have.
create table terraserver.download_area (
    image_id    int4 primary key references terraserver.image,
    tiles       int4 not null,
    licence     text not null
);

-- What a bulk load has brought: one row a transaction, so that it goes on where it stopped.
create table terraserver.loaded (
    unit   int4 primary key,
    tiles  int4 not null,
    bytes  int8 not null
);

create function terraserver.tile(theme int2, scale int2, x int4, y int4, scene int2)
returns table (content_type text, version int4, picture bytea)
language sql stable as $$
    select 'image/jpeg', t.version, t.picture from terraserver.tile t
    where t.theme = $1 and t.scale = $2 and t.scene = $5 and t.x = $3 and t.y = $4
    order by t.version desc limit 1
$$;

-- The tiles that a page shows, without their pictures: a browser asks for those one by one. Width 1 is 3 × 2 tiles,
-- 2 is 4 × 3, 3 is 5 × 4, around the tile that is asked for.
create function terraserver.image(theme int2, scale int2, x int4, y int4, scene int2, width int2)
returns table (x int4, y int4, image_id int4, title text, state text, taken date)
language sql stable as $$
    select t.x, t.y, i.image_id, i.title, i.state, i.taken
    from terraserver.tile t join terraserver.image i using (image_id)
    where t.theme = $1 and t.scale = $2 and t.scene = $5
      and t.x between $3 - (least(greatest($6, 1), 3) + 2) / 2 and $3 + (least(greatest($6, 1), 3) + 1) / 2
      and t.y between $4 - (least(greatest($6, 1), 3) + 1) / 2 and $4 + least(greatest($6, 1), 3) / 2
$$;

-- All tiles of a page with their pictures, as one file is made of them.
create function terraserver.download(theme int2, scale int2, x int4, y int4, scene int2, width int2)
returns table (x int4, y int4, licence text, picture bytea)
language sql stable as $$
    select t.x, t.y, d.licence, t.picture
    from terraserver.tile t left join terraserver.download_area d using (image_id)
    where t.theme = $1 and t.scale = $2 and t.scene = $5
      and t.x between $3 - (least(greatest($6, 1), 3) + 2) / 2 and $3 + (least(greatest($6, 1), 3) + 1) / 2
      and t.y between $4 - (least(greatest($6, 1), 3) + 1) / 2 and $4 + least(greatest($6, 1), 3) / 2
$$;

create function terraserver.image_info(theme int2, scale int2, x int4, y int4, scene int2)
returns table (image_id int4, title text, state text, taken date, loaded timestamptz, metres_per_pixel float8,
               x_first int4, y_first int4, x_last int4, y_last int4, tile_bytes int4)
language sql stable as $$
    select i.image_id, i.title, i.state, i.taken, i.loaded, i.metres_per_pixel, i.x_first, i.y_first, i.x_last, i.y_last,
           octet_length(t.picture)
    from terraserver.tile t join terraserver.image i using (image_id)
    where t.theme = $1 and t.scale = $2 and t.scene = $5 and t.x = $3 and t.y = $4
    order by t.version desc limit 1
$$;

create function terraserver.famous()
returns table (place_id int4, name text, state text, latitude float8, longitude float8)
language sql stable as $$
    select p.place_id, p.name, p.state, p.latitude, p.longitude from terraserver.place p where p.is_famous order by p.name
$$;

create function terraserver.find_place(start text)
returns table (place_id int4, name text, state text, scene int2, easting_m int4, northing_m int4)
language sql stable as $$
    select p.place_id, p.name, p.state, p.scene, p.easting_m, p.northing_m from terraserver.place p
    where lower(p.name) like replace(replace(replace(lower($1), '\', '\\'), '%', '\%'), '_', '\_') || '%'
    order by p.name limit 100
$$;

-- One tile as the loader brings it: look whether there is one, read what is known of its picture, put the new one in,
-- take the old one away. One statement, so one transaction. Gives back the new version.
create function terraserver.load(theme int2, scale int2, x int4, y int4, scene int2, image int4, picture bytea)
returns int4
language plpgsql as $$
declare
    old_version int4;
    known       record;
begin
    select max(t.version) into old_version from terraserver.tile t
    where t.theme = $1 and t.scale = $2 and t.scene = $5 and t.x = $3 and t.y = $4;
    select i.image_id, i.title, i.taken into known from terraserver.image i
    where i.image_id = $6 and i.theme = $1 and i.scene = $5;
    if not found then
        raise exception 'image % of theme % in zone % is not known', $6, $1, $5 using errcode = 'foreign_key_violation';
    end if;
    insert into terraserver.tile (theme, scale, scene, x, y, version, image_id, picture)
    values ($1, $2, $5, $3, $4, coalesce(old_version, 0) + 1, known.image_id, $7);
    if old_version is not null then
        delete from terraserver.tile t
        where t.theme = $1 and t.scale = $2 and t.scene = $5 and t.x = $3 and t.y = $4 and t.version <= old_version;
    end if;
    return coalesce(old_version, 0) + 1;
end
$$;
